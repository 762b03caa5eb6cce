package kinds

import "encoding/json"

// member returns the undecoded value of a field of a JSON object, or nil.
func member(data json.RawMessage, name string) (value json.RawMessage) {
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	scan(data, func(key, v []byte) {
		if len(key) == len(name)+2 && string(key[1:len(key)-1]) == name {
			value = v
		}
	})
	return value
}

// entries returns the length of a JSON object or list. It returns 0 for other values.
func entries(data json.RawMessage) int64 {
	count := int64(0)
	if len(data) > 0 && (data[0] == '{' || data[0] == '[') {
		scan(data, func(_, _ []byte) { count++ })
	}
	return count
}

// scan calls f with each entry of a JSON object or list. Keys are quoted, and nil in a list. The
// registry stores valid JSON only; in malformed data scan may call f with any part of it.
func scan(data []byte, f func(key, value []byte)) {
	i := space(data, 1)
	for i < len(data) && data[i] != '}' && data[i] != ']' {
		var key []byte
		end := skip(data, i)
		if data[0] == '{' {
			key = data[i:end]
			i = space(data, end)
			if i >= len(data) || data[i] != ':' {
				return
			}
			i = space(data, i+1)
			end = skip(data, i)
		}
		if end <= i {
			return
		}
		f(key, data[i:end])
		if i = space(data, end); i < len(data) && data[i] == ',' {
			i = space(data, i+1)
		}
	}
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skip returns the index after the JSON value at i.
func skip(data []byte, i int) int {
	depth := 0
	for ; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(data))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			} else if depth < 0 {
				return i
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(data)
}

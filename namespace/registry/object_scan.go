package registry

import (
	"encoding/json"
	"errors"
)

var errMalformed = errors.New("the document is not a JSON object")

// eachField calls f for each field of the JSON object in data, in order, until f
// fails. It finds where fields begin and end; whether their values are valid is
// for whoever reads them. A name that differs only by case is another name.
func eachField(data []byte, f func(name string, value []byte) error) error {
	i := skipSpace(data, 0)
	if i >= len(data) || data[i] != '{' {
		return errMalformed
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == '}' {
		return nil
	}
	for {
		end := skipValue(data, i)
		if end < 0 || data[i] != '"' {
			return errMalformed
		}
		name, err := unquote(data[i:end])
		if err != nil {
			return err
		}
		if i = skipSpace(data, end); i >= len(data) || data[i] != ':' {
			return errMalformed
		}
		i = skipSpace(data, i+1)
		if end = skipValue(data, i); end < 0 {
			return errMalformed
		}
		if err := f(name, data[i:end:end]); err != nil {
			return err
		}
		i = skipSpace(data, end)
		switch {
		case i < len(data) && data[i] == '}':
			return nil
		case i < len(data) && data[i] == ',':
			i = skipSpace(data, i+1)
		default:
			return errMalformed
		}
	}
}

func unquote(quoted []byte) (string, error) {
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x80 {
			var name string
			err := json.Unmarshal(quoted, &name)
			return name, err
		}
	}
	return string(inner), nil
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the JSON value that begins at i, -1 if it has none.
func skipValue(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		return skipNested(data, i)
	case ',', ':', '}', ']':
		return -1
	}
	for ; i < len(data); i++ { // a number or a literal
		switch data[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return i
}

func skipString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func skipNested(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			if i = skipString(data, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

package registry

import (
	"bytes"
	"unicode/utf8"
)

// The functions here recognize JSON values in the one form in which package
// encoding/json writes what it has decoded, so that decoding and encoding them
// again would change nothing. Each takes where a value begins and returns where it
// ends, or -1 when it is in another form: that may be as valid, but costs a
// decoding. All take data that is valid UTF-8.

// part is a field of a canonical object.
type part struct {
	name  string // with quotes and the colon
	value func(data []byte, i int) int
	must  bool // it is there also when it is empty
}

// span is where a value lies; the zero span: nowhere.
type span struct{ from, to int }

func (s span) of(data []byte) []byte { return data[s.from:s.to] }

// object recognizes an object of these parts, in their order, and notes in at, if
// there is one, where their values are.
func object(data []byte, i int, parts []part, at []span) int {
	if i >= len(data) || data[i] != '{' {
		return -1
	}
	first := true
	i++
	for n := range parts {
		p := &parts[n]
		from := i
		if !first && from < len(data) && data[from] == ',' {
			from++
		}
		if from-i == 1 == first || !hasAt(data, from, p.name) {
			if p.must {
				return -1
			}
			continue
		}
		from += len(p.name)
		if i = p.value(data, from); i < 0 {
			return -1
		}
		if at != nil {
			at[n] = span{from, i}
		}
		first = false
	}
	if i >= len(data) || data[i] != '}' {
		return -1
	}
	return i + 1
}

func hasAt(data []byte, i int, text string) bool {
	return len(data)-i >= len(text) && string(data[i:i+len(text)]) == text
}

// list1 recognizes a list of one or more.
func list1(data []byte, i int, value func([]byte, int) int) int {
	if i >= len(data) || data[i] != '[' {
		return -1
	}
	for {
		if i = value(data, i+1); i < 0 || i >= len(data) {
			return -1
		}
		switch data[i] {
		case ']':
			return i + 1
		case ',':
		default:
			return -1
		}
	}
}

// classes of bytes in strings.
const (
	inPlain  = 1 << iota // stands for itself wherever it is
	inString             // stands for itself in a JSON string
)

var classes = func() (table [256]uint8) {
	for c := ' '; c <= 0xff; c++ {
		if c == '"' || c == '\\' {
			continue
		}
		table[c] = inString
		if c < 0x7f && c != '<' && c != '>' && c != '&' {
			table[c] |= inPlain
		}
	}
	return table
}()

// text recognizes a string, perhaps an empty one.
func text(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	for i++; i < len(data); {
		c := data[i]
		switch {
		case classes[c]&inPlain != 0 || c == 0x7f:
			i++
		case c == '"':
			return i + 1
		case c == '\\':
			n := escape(data[i+1:])
			if n == 0 {
				return -1
			}
			i += 1 + n
		case c >= utf8.RuneSelf:
			if hasAt(data, i, "\u2028") || hasAt(data, i, "\u2029") {
				return -1
			}
			i++
		default:
			return -1
		}
	}
	return -1
}

// escape returns the length of the canonical escape sequence that s, which follows
// a backslash, begins with; zero when it is another one.
func escape(s []byte) int {
	if len(s) == 0 {
		return 0
	}
	switch s[0] {
	case '"', '\\', 'n', 'r', 't':
		return 1
	case 'u':
		if hasAt(s, 1, "003c") || hasAt(s, 1, "003e") || hasAt(s, 1, "0026") {
			return 5
		}
	}
	return 0
}

// word recognizes a string that is not empty.
func word(data []byte, i int) int {
	if end := text(data, i); end > i+2 {
		return end
	}
	return -1
}

// plain recognizes a string that is not empty and has nothing in it that is ever
// escaped.
func plain(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	start := i + 1
	for i = start; i < len(data) && classes[data[i]]&inPlain != 0; i++ {
	}
	if i == start || i >= len(data) || data[i] != '"' {
		return -1
	}
	return i + 1
}

// texts recognizes an object of strings, as it is made of a map that has some.
func texts(data []byte, i int) int {
	if i >= len(data) || data[i] != '{' {
		return -1
	}
	var last []byte
	for {
		from := i + 1
		if i = plain(data, from); i < 0 || i >= len(data) || data[i] != ':' {
			return -1
		}
		key := data[from:i]
		if last != nil && bytes.Compare(last[1:len(last)-1], key[1:len(key)-1]) >= 0 {
			return -1
		}
		last = key
		if i = text(data, i+1); i < 0 || i >= len(data) {
			return -1
		}
		switch data[i] {
		case '}':
			return i + 1
		case ',':
		default:
			return -1
		}
	}
}

// names recognizes a [finalizer.Set] that is not empty.
func names(data []byte, i int) int {
	const most = 8 // of more it is not worth while to see whether they are distinct
	var seen [most][]byte
	n := 0
	return list1(data, i, func(data []byte, i int) int {
		end := text(data, i)
		if end < 0 || n == most {
			return -1
		}
		for _, name := range seen[:n] {
			if bytes.Equal(name, data[i:end]) {
				return -1
			}
		}
		seen[n] = data[i:end]
		n++
		return end
	})
}

// integer recognizes a number of type int64, but for the very greatest.
func integer(data []byte, i int) int {
	if i < len(data) && data[i] == '0' {
		return i + 1
	}
	if i < len(data) && data[i] == '-' {
		i++
	}
	start := i
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	if i == start || i-start > 18 || data[start] == '0' {
		return -1
	}
	return i
}

// count recognizes an integer that is not zero.
func count(data []byte, i int) int {
	if i < len(data) && data[i] == '0' {
		return -1
	}
	return integer(data, i)
}

// boolean recognizes true and false.
func boolean(data []byte, i int) int {
	for _, literal := range [...]string{"true", "false"} {
		if hasAt(data, i, literal) {
			return i + len(literal)
		}
	}
	return -1
}

// moment recognizes a [phase.Time] that is not zero.
func moment(data []byte, i int) int {
	const form = `"0000-00-00T00:00:00Z"`
	if len(data)-i < len(form) {
		return -1
	}
	s := data[i : i+len(form)]
	for n := range len(form) {
		if c := form[n]; c != '0' && s[n] != c || c == '0' && (s[n] < '0' || s[n] > '9') {
			return -1
		}
	}
	two := func(n int) int { return int(s[n]-'0')*10 + int(s[n+1]-'0') }
	year, month, day := two(1)*100+two(3), two(6), two(9)
	if year < 2 || month < 1 || month > 12 || day < 1 || day > 28 && day > daysIn(year, month) ||
		two(12) > 23 || two(15) > 59 || two(18) > 59 {
		return -1
	}
	return i + len(form)
}

func daysIn(year, month int) int {
	switch {
	case month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		return 29
	case month == 2:
		return 28
	case month == 4 || month == 6 || month == 9 || month == 11:
		return 30
	}
	return 31
}

// embedded recognizes a [namespace.RawJSON] that is not null.
func embedded(data []byte, i int) int {
	end := compact(data, i)
	if end < 0 || data[i] == 'n' || bytes.ContainsAny(data[i:end], "<>&\u2028\u2029") {
		return -1
	}
	return end
}

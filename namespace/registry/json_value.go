package registry

import (
	"encoding/binary"
	"strings"
)

// compact recognizes any JSON value without white space around its tokens, unless
// it is nested very deeply.
func compact(data []byte, i int) int {
	const deepest = 64
	var lists uint64 // a bit for each level: whether it is a list
	for depth := 0; ; {
		if i >= len(data) {
			return -1
		}
		switch c := data[i]; {
		case c == '"':
			i = quoted(data, i)
		case c != '{' && c != '[':
			i = scalar(data, i)
		case depth == deepest:
			return -1
		default:
			depth++
			lists <<= 1
			if c == '[' {
				lists |= 1
			}
			if i++; i < len(data) && data[i] == closing(lists) {
				break // it is empty
			}
			if c == '{' {
				i = key(data, i)
			}
			if i < 0 {
				return -1
			}
			continue
		}
		for i >= 0 && depth > 0 && i < len(data) && data[i] == closing(lists) {
			i++
			depth--
			lists >>= 1
		}
		if depth == 0 || i < 0 {
			return i
		}
		if i >= len(data) || data[i] != ',' {
			return -1
		}
		if i++; lists&1 == 0 {
			if i = key(data, i); i < 0 {
				return -1
			}
		}
	}
}

// closing returns what ends the innermost level.
func closing(lists uint64) byte {
	if lists&1 == 1 {
		return ']'
	}
	return '}'
}

// key recognizes the name of a field, and the colon.
func key(data []byte, i int) int {
	if i >= len(data) || data[i] != '"' {
		return -1
	}
	if i = quoted(data, i); i < 0 || i >= len(data) || data[i] != ':' {
		return -1
	}
	return i + 1
}

// quoted recognizes any string.
func quoted(data []byte, i int) int {
	for i++; ; i++ {
		i = plainRun(data, i)
		if i >= len(data) {
			return -1
		}
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			if i++; i >= len(data) {
				return -1
			}
			switch data[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if len(data)-i < 5 || !hexadecimal(data[i+1:i+5]) {
					return -1
				}
				i += 4
			default:
				return -1
			}
		default:
			return -1
		}
	}
}

// plainRun returns the first byte from i on that does not stand for itself in a
// string. It looks at eight at a time: long strings are most of large documents.
func plainRun(data []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for len(data)-i >= 8 {
		w := binary.LittleEndian.Uint64(data[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		if ((w-ones*' ')&^w|(quote-ones)&^quote|(slash-ones)&^slash)&tops != 0 {
			break
		}
		i += 8
	}
	for i < len(data) && classes[data[i]]&inString != 0 {
		i++
	}
	return i
}

func hexadecimal(s []byte) bool {
	for _, c := range s {
		if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return false
		}
	}
	return true
}

// scalar recognizes a literal or a number.
func scalar(data []byte, i int) int {
	for _, literal := range [...]string{"true", "false", "null"} {
		if hasAt(data, i, literal) {
			return i + len(literal)
		}
	}
	digits := func() bool {
		start := i
		for i < len(data) && '0' <= data[i] && data[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(data) && data[i] == '-' {
		i++
	}
	if i < len(data) && data[i] == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if i < len(data) && data[i] == '.' {
		if i++; !digits() {
			return -1
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}

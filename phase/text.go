package phase

import (
	"strings"
	"unicode/utf8"
)

// Truncate returns s as valid UTF-8 of at most limit bytes; limit must be at least 3. If it cuts s,
// the result ends in "...". Conditions, errors and logs use it to repeat text of unknown length.
func Truncate(s string, limit int) string {
	const mark = "..."
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= limit {
		return s
	}
	end := max(limit-len(mark), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

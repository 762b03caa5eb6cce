// Package show formats values and paragraphs for operators, in text and on pages.
package show

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Duration returns a duration in its two largest units: "2d 3h", "5m 12s", "340ms".
func Duration(d time.Duration) string {
	if d < time.Second {
		if d < time.Millisecond {
			return "0s"
		}
		return strconv.Itoa(int(d/time.Millisecond)) + "ms"
	}
	units := []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	const names = "dhms"
	at := 0
	for d < units[at] {
		at++
	}
	n := d / units[at]
	text := Number(int(n)) + names[at:at+1]
	if at+1 < len(units) && n < 100 {
		if rest := d % units[at] / units[at+1]; rest > 0 {
			text += " " + strconv.Itoa(int(rest)) + names[at+1:at+2]
		}
	}
	return text
}

// Rate returns a number per second with its unit: "12/s", "0.5/s", "2.4/min".
func Rate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return Number(int(math.Round(min(perSecond, 1e15)))) + "/s"
	case perSecond >= 0.1:
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.1f/min", perSecond*60)
}

// Date returns t in UTC: "2026-11-21 12:00:00 UTC".
func Date(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Number returns n with thousands separated: "12,345".
func Number(n int) string {
	s := strconv.Itoa(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Count returns a number with its noun: "1 object", "2 objects".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Number(n) + " " + noun + "s"
}

// width is the preferred number of columns of a text.
const width = 80

// Wrap writes first and a paragraph, cleaned and broken at spaces to the width, with a line
// break at its end. Further lines begin with rest.
func Wrap(b *strings.Builder, first, rest, text string) {
	b.WriteString(first)
	column, lineStart := len(first), true
	for word := range strings.FieldsSeq(Clean(text)) {
		n := utf8.RuneCountInString(word)
		switch {
		case lineStart:
			lineStart = false
		case column+1+n > width:
			b.WriteString("\n" + rest)
			column = len(rest)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}

// Clean returns s with escapes for everything that a terminal might obey, or that would
// change how the text reads: control characters, line breaks, marks that change the
// direction of text, and invalid UTF-8.
func Clean(s string) string {
	safe := func(r rune) bool {
		return r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != utf8.RuneError
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case safe(r):
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			quoted := fmt.Sprintf("%+q", r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

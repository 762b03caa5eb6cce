package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// human returns a duration in its two largest units: "2d 3h", "5m 12s", "340ms".
func human(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Millisecond:
		return "0s"
	case d < time.Second:
		return strconv.Itoa(int(d/time.Millisecond)) + "ms"
	}
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	at := slices.IndexFunc(units, func(u struct {
		size time.Duration
		name string
	}) bool {
		return d >= u.size
	})
	n := d / units[at].size
	text := number(int(n)) + units[at].name
	if at+1 < len(units) && n < 100 {
		if rest := d % units[at].size / units[at+1].size; rest > 0 {
			text += " " + strconv.Itoa(int(rest)) + units[at+1].name
		}
	}
	return text
}

const dateFormat = "2006-01-02 15:04:05 UTC"

// clock returns t in UTC, without the date if that is the date of now.
func clock(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05 UTC")
	}
	return t.Format(dateFormat)
}

// number returns n with thousands separated: "12,345".
func number(n int) string {
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

func plural(n int, one, many string) string { return number(n) + " " + verb(n, one, many) }

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// count returns "1 object" or "2 objects".
func count(n int, what string) string { return plural(n, what, what+"s") }

func passes(n int) string { return plural(n, "pass", "passes") }

func were(objects int) string { return plural(objects, "object was", "objects were") }

func least(atLeast bool) string {
	if atLeast {
		return "at least "
	}
	return ""
}

// names returns " (a, b and 3 more)" for a sample of a number of objects.
func names(sample []string, of int) string {
	if len(sample) == 0 {
		return ""
	}
	text := strings.Join(sample, ", ")
	if of > len(sample) {
		text += fmt.Sprintf(" and %s more", number(of-len(sample)))
	}
	return " (" + text + ")"
}

// listed returns the first entries of a list.
func listed(list []string) string {
	if len(list) <= maxSample {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(list[:maxSample], ", "), number(len(list)-maxSample))
}

// joined joins the parts that are not empty.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// amounts lists remaining content with samples: "2 of pods (a, b), 1 of jobs (c)".
func amounts(list []Objects, now time.Time) string {
	var parts []string
	for _, o := range list {
		parts = append(parts, fmt.Sprintf("%s%s of %s%s%s", least(o.AtLeast), number(o.Remaining), o.Resource, names(o.Sample, o.Remaining), o.asOf(now)))
	}
	return listed(parts)
}

// asOf returns the time of an old count.
func (o Objects) asOf(now time.Time) string {
	if !o.Old {
		return ""
	}
	return ", as of " + clock(o.Counted, now)
}

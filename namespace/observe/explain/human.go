package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// human returns a duration in the two units that matter: "2d 3h", "5m 12s", "340ms".
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
	for i, u := range units {
		n := d / u.size
		if n == 0 {
			continue
		}
		text := number(int(n)) + u.name
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 && n < 100 {
				text += " " + strconv.Itoa(int(rest)) + units[i+1].name
			}
		}
		return text
	}
	return "0s"
}

// clock returns t in UTC: with its day, unless that is the day of now.
func clock(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}

// number returns n with its thousands apart: "12,345".
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

func objects(n int) string { return plural(n, "object", "objects") }

func least(atLeast bool) string {
	if atLeast {
		return "at least "
	}
	return ""
}

// names returns " (a, b and 3 more)" of a sample of that many.
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

// listed returns the first few of list.
func listed(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(list[:most], ", "), number(len(list)-most))
}

// amounts returns how many of which types are left, with samples.
func amounts(list []Objects, now time.Time) string {
	var parts []string
	for _, o := range list {
		parts = append(parts, fmt.Sprintf("%s%s of %s%s%s", least(o.AtLeast), number(o.Remaining), o.Resource, names(o.Sample, o.Remaining), o.asOf(now)))
	}
	return listed(parts, maxSample)
}

// asOf says when it was counted, if that is old.
func (o Objects) asOf(now time.Time) string {
	if !o.Old {
		return ""
	}
	return ", as of " + clock(o.Counted, now)
}

// oldest returns since when the first of them has not got less.
func oldest(list []Objects) time.Time {
	var t time.Time
	for _, o := range list {
		t = earlier(t, o.Since)
	}
	return t
}

func orSomebody(who string) string {
	if who == "" {
		return "somebody"
	}
	return who
}

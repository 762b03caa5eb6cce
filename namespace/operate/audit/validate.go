package audit

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

// How long the texts of a [Record] may be, in bytes.
const (
	MaxBy     = 1 << 10
	MaxReason = 4 << 10
	MaxDetail = 64 << 10
)

// Check reports why a record makes no sense: what [Log.Write] would say before it writes
// anything.
func Check(r Record) error {
	_, err := complete(r)
	return err
}

// complete returns r with what the log sets, or why it makes no sense.
func complete(r Record) (Record, error) {
	if err := checkName(r.Namespace); err != nil {
		return Record{}, err
	}
	switch r.Action {
	case Declared, Forcing, Forced, Refused, Sweeping, Swept, Retired:
	default:
		return Record{}, invalid(r.Namespace, "the action %.80q is none of this package", string(r.Action))
	}
	retired := 0
	if r.Action == Retired {
		retired = 1
	}
	if (r.Action == Retired) != (r.Namespace == Types) {
		return Record{}, invalid(r.Namespace, "records of the action %q, and no others, are about %q", Retired, Types)
	}
	if r.ID != "" {
		return Record{}, invalid(r.Namespace, "the record has the ID %.80q: leave it out, the log sets it", r.ID)
	}
	if _, ok := timeOf(r.Follows); r.Follows != "" && !ok {
		return Record{}, invalid(r.Namespace, "the record follows %.80q, which is no ID of a record", r.Follows)
	}
	for _, text := range []struct {
		what, is string
		least    int
		most     int
		lines    bool // it may have several
	}{
		{"UID", r.UID, 1 - retired, (1 - retired) * maxSegment, false},
		{"Resource", r.Resource, retired, retired * maxSegment, false},
		{"By", r.By, 0, MaxBy, false},
		{"Reason", r.Reason, 0, MaxReason, false},
		{"Detail", r.Detail, 0, MaxDetail, true},
	} {
		switch {
		case len(text.is) < text.least:
			return Record{}, invalid(r.Namespace, "%s must not be empty", text.what)
		case len(text.is) > text.most:
			return Record{}, invalid(r.Namespace, "%s has %d bytes, at most %d are allowed", text.what, len(text.is), text.most)
		case !utf8.ValidString(text.is):
			return Record{}, invalid(r.Namespace, "%s must be valid UTF-8", text.what)
		case !text.lines && strings.ContainsFunc(text.is, hidden):
			return Record{}, invalid(r.Namespace, "%s must be of one line, without control characters", text.what)
		}
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.Time = r.Time.UTC().Round(0)
	if year := r.Time.Year(); year < 1970 || year > 9999 {
		return Record{}, invalid(r.Namespace, "the time is of the year %d", year)
	}
	r.ID, r.Objects, r.Failures = newID(r.Time), 0, 0
	return r, nil
}

// hidden reports what does not show, or not in its place, where a record is printed.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && !unicode.Is(unicode.Join_Control, r) }

// Printable returns a name as a record's By may have it: without control characters, and
// cut.
func Printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || hidden(r) {
			return -1
		}
		return r
	}, name)
	if len(name) > MaxBy {
		name = strings.ToValidUTF8(name[:MaxBy], "")
	}
	return name
}

// invalid is a refusal of what makes no sense.
func invalid(name, format string, args ...any) error {
	about := ""
	if name != "" {
		about = fmt.Sprintf("namespace %q: ", name)
	}
	return &namespace.Error{Kind: namespace.ErrInvalid, Resource: namespace.Resource, Name: name, Message: "audit: " + about + fmt.Sprintf(format, args...)}
}

// failed is an error of the store, or of the context, seen from above.
func failed(name, what string, err error) error {
	about := what
	if name != "" {
		about = fmt.Sprintf("namespace %q: %s", name, what)
	}
	var kind error
	switch {
	case errors.Is(err, namespace.ErrUnknownOutcome):
		kind = namespace.ErrUnknownOutcome
	case errors.Is(err, store.ErrTooLarge):
		kind = namespace.ErrInvalid
	default:
		return fmt.Errorf("audit: %s: %w", about, err)
	}
	return &namespace.Error{Kind: kind, Resource: namespace.Resource, Name: name, Err: err, Message: fmt.Sprintf("audit: %s: %v", about, err)}
}

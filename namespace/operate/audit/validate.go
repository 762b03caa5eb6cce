package audit

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/store"
)

// The maximum lengths of texts in a [Record], in bytes.
const (
	MaxBy     = 1 << 10
	MaxReason = 4 << 10
	MaxDetail = 64 << 10
)

// Check returns the error with which [Log.Write] would refuse an invalid record.
func Check(r Record) error {
	_, err := complete(r)
	return err
}

// complete validates r and sets its ID and time.
func complete(r Record) (Record, error) {
	if err := checkName(r.Namespace); err != nil {
		return Record{}, err
	}
	switch r.Action {
	case Declared, Forcing, Forced, Refused, Sweeping, Swept, Retired:
	default:
		return Record{}, invalid(r.Namespace, "the action is %.80q, which this package does not define", string(r.Action))
	}
	retired := 0
	if r.Action == Retired {
		retired = 1
	}
	if (r.Action == Retired) != (r.Namespace == Types) {
		return Record{}, invalid(r.Namespace, "only records with the action %q may have the namespace %q, and they must", Retired, Types)
	}
	if r.ID != "" {
		return Record{}, invalid(r.Namespace, "ID must be empty, is %.80q: the log sets it", r.ID)
	}
	if _, ok := timeOf(r.Follows); r.Follows != "" && !ok {
		return Record{}, invalid(r.Namespace, "Follows must be the ID of a record, is %.80q", r.Follows)
	}
	for _, text := range []struct {
		field, value string
		least, most  int
		lines        bool // line breaks are allowed
	}{
		{"UID", r.UID, 1 - retired, (1 - retired) * syntax.MaxSubdomain, false},
		{"Resource", r.Resource, retired, retired * syntax.MaxSubdomain, false},
		{"By", r.By, 0, MaxBy, false},
		{"Reason", r.Reason, 0, MaxReason, false},
		{"Detail", r.Detail, 0, MaxDetail, true},
	} {
		switch {
		case len(text.value) < text.least:
			return Record{}, invalid(r.Namespace, "%s must not be empty", text.field)
		case len(text.value) > text.most:
			return Record{}, invalid(r.Namespace, "%s has %d bytes, must have at most %d", text.field, len(text.value), text.most)
		case !utf8.ValidString(text.value):
			return Record{}, invalid(r.Namespace, "%s must be valid UTF-8", text.field)
		case !text.lines && strings.ContainsFunc(text.value, declare.Hidden):
			return Record{}, invalid(r.Namespace, "%s must be one line without control characters", text.field)
		}
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.Time = r.Time.UTC().Round(0)
	if year := r.Time.Year(); year < 1970 || year > 9999 {
		return Record{}, invalid(r.Namespace, "Time must be between 1970 and 9999, is in the year %d", year)
	}
	r.ID, r.Objects, r.Failures = newID(r.Time), 0, 0
	return r, nil
}

func checkName(name string) error {
	if name == Types {
		return nil
	}
	if wrong := namespace.ValidateName(name); len(wrong) > 0 {
		return invalid("", "%.80q is not a valid name of a namespace: %s", name, strings.Join(wrong, "; "))
	}
	return nil
}

// invalid returns a [namespace.ErrInvalid].
func invalid(name, format string, args ...any) error {
	about := ""
	if name != "" {
		about = fmt.Sprintf("namespace %q: ", name)
	}
	return &namespace.Error{Kind: namespace.ErrInvalid, Resource: namespace.Resource, Name: name, Message: "audit: " + about + fmt.Sprintf(format, args...)}
}

// failed adds the operation to an error of the store or the context.
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

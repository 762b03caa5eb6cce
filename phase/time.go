package phase

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time is a time in the JSON form of Kubernetes: RFC 3339 in UTC with whole seconds, and null for
// the zero Time.
type Time struct{ time.Time }

// At returns t in UTC, truncated to whole seconds.
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UTC().Truncate(time.Second)}
}

// Equal reports whether t and u are the same moment.
func (t Time) Equal(u Time) bool { return t.Time.Equal(u.Time) }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	utc := t.UTC()
	if err := encodable(utc); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, len(`"2006-01-02T15:04:05Z"`))
	buf = append(buf, '"')
	buf = utc.AppendFormat(buf, time.RFC3339)
	return append(buf, '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler. It truncates fractions of a second.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = Time{}
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a time must be a string in RFC 3339 form, got %.40s", data)
	}
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("a time must be in RFC 3339 form: %w", err)
	}
	at := At(parsed)
	if err := encodable(at.Time); err != nil {
		return err
	}
	*t = at
	return nil
}

// encodable refuses years that RFC 3339 cannot represent. The offset of a decoded time can lead to
// one.
func encodable(utc time.Time) error {
	if y := utc.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("a time must be between the years 0 and 9999, got the year %d", y)
	}
	return nil
}

package phase

import (
	"fmt"
	"time"
)

// Time is a moment as Kubernetes writes it in JSON: RFC 3339 in UTC, whole
// seconds, null when zero. The zero Time is not set.
type Time struct{ time.Time }

// At returns t in UTC, cut to the whole second that its JSON form can hold.
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UTC().Truncate(time.Second)}
}

// Equal reports whether both are the same moment.
func (t Time) Equal(u Time) bool { return t.Time.Equal(u.Time) }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	buf := make([]byte, 0, len(`"2006-01-02T15:04:05Z"`))
	buf = append(buf, '"')
	buf = t.UTC().AppendFormat(buf, time.RFC3339)
	return append(buf, '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = Time{}
		return nil
	}
	if len(data) < 2 || data[0] != '"' || data[len(data)-1] != '"' {
		return fmt.Errorf("a time must be a string in RFC 3339 form, got %.40s", data)
	}
	parsed, err := time.Parse(time.RFC3339, string(data[1:len(data)-1]))
	if err != nil {
		return err
	}
	*t = At(parsed)
	return nil
}

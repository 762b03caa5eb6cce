package parties

import (
	"encoding/json"
	"time"
)

// value is what an entry holds.
type value struct {
	Label    string    `json:"label"`
	Contact  string    `json:"contact,omitempty"`
	Since    time.Time `json:"since"`
	Seen     time.Time `json:"seen"`
	Patience string    `json:"patience"` // as time.ParseDuration reads it
	Left     bool      `json:"left,omitempty"`
}

// maxValue bounds what is read of an entry, in bytes: more than anybody announces.
const maxValue = 8 << 10

func (v value) encode() ([]byte, error) { return json.Marshal(v) }

// decode reads what an entry holds. It is not to be trusted: anybody who may write to
// the store may have written it.
func decode(data []byte) (v value, ok bool) {
	if len(data) > maxValue || json.Unmarshal(data, &v) != nil {
		return value{}, false
	}
	ok = !v.Seen.IsZero() && checkText("label", v.Label, maxLabel) == nil && checkText("contact", v.Contact, maxContact) == nil
	return v, ok
}

// patience returns for how long the instance may be silent.
func (v value) patience() time.Duration {
	p, err := time.ParseDuration(v.Patience)
	if err != nil || p <= 0 || p > maxPatience {
		return defaultPatience
	}
	return p
}

// alive reports whether the instance is, as seen at now. One that was last seen in the
// future has another clock: what it says is no better than what is as old.
func (v value) alive(now time.Time) bool {
	return !v.Left && now.Sub(v.Seen).Abs() < v.patience()
}

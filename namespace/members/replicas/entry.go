package replicas

import (
	"encoding/json"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
)

// value is what an entry holds.
type value struct {
	Beat  uint64 `json:"beat"` // counts the writes of its owner
	Label string `json:"label,omitempty"`
}

func (v value) encode() []byte {
	data, _ := json.Marshal(v) // a number and a string always encode
	return data
}

// decode reads what an entry holds. Whatever it is, the entry is a member as long
// as it changes.
func decode(data []byte) value {
	var v value
	if json.Unmarshal(data, &v) != nil {
		return value{}
	}
	return v
}

// idOf returns the member whose entry key is, or false for one of another group
// whose name begins with this one's.
func (r *Replica) idOf(key string) (id string, ok bool) {
	id, ok = strings.CutPrefix(key, r.prefix)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// news is what the follower tells the loop, in the store's order: all entries, or
// what one commit changed, or why it ended.
type news struct {
	listing *store.Page
	change  store.Change
	ended   error
	byUs    bool // it was told to end
}

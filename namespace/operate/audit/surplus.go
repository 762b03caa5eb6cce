package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
)

// The bounds of the [Declared] records of one name. Every client that may update a namespace
// can add records, so a new record replaces the oldest ones.
const (
	// MaxDeclared bounds their number.
	MaxDeclared = 200
	// MaxDeclaredBytes bounds their total size. It may be exceeded temporarily after large
	// records have replaced many small ones.
	MaxDeclaredBytes = 256 << 10

	maxSurplus = 32 // records that one commit removes, if the store allows as many
)

// Surplus returns operations that remove the oldest [Declared] records of a name, so that
// a new record fits within [MaxDeclared] and [MaxDeclaredBytes]. The caller adds them to the
// commit that writes the new record. Records of other actions stay until [Log.Forget].
func (l *Log) Surplus(ctx context.Context, name string) ([]store.Operation, error) {
	type kept struct {
		key  string
		size int
		at   store.Revision
	}
	var records []kept
	total := 0
	root := l.keys.records(name)
	err := l.each(ctx, root, chunk, func(e store.Entry) error {
		var r struct{ Action Action }
		if _, ok := timeOf(strings.TrimPrefix(e.Key, root)); !ok || json.Unmarshal(e.Value, &r) != nil || r.Action != Declared {
			return nil
		}
		size := len(e.Key) + len(e.Value)
		records = append(records, kept{e.Key, size, e.Revision})
		total += size
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(records, func(a, b kept) int { return cmp.Compare(a.at, b.at) })
	most := maxSurplus
	if limit := store.LimitsOf(l.store).Operations; limit > 0 {
		most = min(most, max(limit/4, 1)) // the commit needs the rest for its own operations
	}
	var gone []store.Operation
	for i, r := range records {
		if len(records)-i < MaxDeclared && total <= MaxDeclaredBytes-MaxChanges || len(gone) == most {
			break
		}
		gone = append(gone, store.Delete(r.key))
		total -= r.size
	}
	return gone, nil
}

package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/store"
)

// The bounds of the [Declared] records that are kept of one name. Clients who may update a
// namespace add to them, so each new one takes the place of the oldest ones.
const (
	// MaxDeclared is how many there are at most.
	MaxDeclared = 200
	// MaxDeclaredBytes is how many bytes they have together at most, once commits that
	// replaced many small ones by large ones have caught up.
	MaxDeclaredBytes = 256 << 10

	maxSurplus = 32 // records that one commit removes, if the store allows as many
)

// Surplus returns the operations that remove the oldest [Declared] records of a name, so
// that one more keeps them within [MaxDeclared] and [MaxDeclaredBytes]. They belong in the
// commit that writes it. Records of other actions stay until [Log.Forget].
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
		most = min(most, max(limit/4, 1)) // the rest is for the commit that they belong in
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

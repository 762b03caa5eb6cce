package parties

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// most bounds the instances of one party that are kept: beyond it the ones that were
// silent for longest go, so that a party whose processes die young leaves no heap.
const most = 256

// sighting is the entry of another instance as it was seen.
type sighting struct {
	revision store.Revision
	since    time.Time // when it was first seen so, by the own clock
}

// tidy removes the dead of the own party, once in a Patience. The own entry has just
// been written, so the party stays known by that.
func (a *announcer) tidy(ctx context.Context) {
	now := time.Now()
	if !a.swept.IsZero() && now.Sub(a.swept) < a.options.Patience {
		return
	}
	sweeping, cancel := context.WithTimeout(ctx, a.options.Beat/2) // the next beat is due
	defer cancel()
	switch err := a.sweep(sweeping, now); {
	case err == nil:
		a.swept = now
	case ctx.Err() == nil && a.options.Hooks.Failed != nil:
		a.options.Hooks.Failed(fmt.Errorf("parties: remove the dead: %w", err))
	}
}

// sweep removes the instances that have left, and those that were silent for as long
// as they said they would never be. That is judged by how their entries change, not by
// what their clocks say.
func (a *announcer) sweep(ctx context.Context, now time.Time) error {
	entries, err := list(ctx, a.store, a.prefix)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(x, y store.Entry) int { return cmp.Compare(y.Revision, x.Revision) })
	others := make(map[string]sighting, min(len(entries), most))
	var dead []store.Entry
	for _, e := range entries {
		// The rest of the key has a slash in it if it is of a party whose name begins
		// with this one's.
		if e.Key == a.key || strings.Contains(e.Key[len(a.prefix):], "/") {
			continue
		}
		seen := sighting{e.Revision, now}
		if old := a.others[e.Key]; old.revision == e.Revision {
			seen = old
		}
		v, _ := decode(e.Value)
		silent := now.Sub(seen.since) >= max(v.patience(), a.options.Patience)
		if v.Left || silent || len(others) >= most-1 {
			dead = append(dead, e)
			continue
		}
		others[e.Key] = seen
	}
	a.others = others
	for _, e := range dead {
		_, err := a.store.Commit(ctx, store.Txn{If: []store.Condition{store.At(e.Key, e.Revision)}, Do: []store.Operation{store.Delete(e.Key)}})
		if err != nil && !errors.Is(err, store.ErrConflict) { // it lives, or somebody was faster
			return err
		}
	}
	return nil
}

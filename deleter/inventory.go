package deleter

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Inventory is everything that is in a namespace.
type Inventory struct {
	Report  Report   // as [Composed.Inspect] has it
	Objects []Object // sorted by resource, then by name
}

// Object is one object of an [Inventory].
type Object struct {
	Resource namespace.ResourceType
	Item
}

// Inventory lists every object in the target, under the terms of [Composed.Inspect]. It
// is held in memory as a whole. Only without an error it is complete; of a type that
// failed on the way it has what was listed until then, and the report names the type.
func (c *Composed) Inventory(ctx context.Context, target Target) (Inventory, error) {
	var kept []*keeper // by source
	report, err := c.look(ctx, target, func(_ int, v *visit) {
		v.keep = &keeper{}
		kept = append(kept, v.keep)
	})
	inventory := Inventory{Report: report}
	for i, k := range kept {
		inventory.Objects = k.into(inventory.Objects, report.Results[i])
	}
	return inventory, err
}

// keeper keeps what a listing lists. A listing that begins anew is kept anew.
type keeper struct {
	of    *tally // the listing that items are of
	items []Item
	most  []Item // of the listings before, the one that got furthest
}

func (k *keeper) add(of *tally, items []Item) {
	if of != k.of {
		k.most = k.furthest()
		k.items, k.of = nil, of
	}
	k.items = append(k.items, items...)
}

func (k *keeper) furthest() []Item {
	if len(k.items) >= len(k.most) {
		return k.items
	}
	return k.most
}

// into appends the objects to list, in order and each once.
func (k *keeper) into(list []Object, r Result) []Object {
	items := k.items
	if r.Err != nil {
		items = k.furthest()
	}
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
	})
	for i, item := range items {
		if i > 0 && item.Name == items[i-1].Name && item.UID == items[i-1].UID {
			continue
		}
		list = append(list, Object{Resource: r.Resource, Item: item})
	}
	return list
}

package deleter

import (
	"cmp"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/phase"
)

// tally adds up a listing in bounded memory.
type tally struct {
	samples    int
	count      int
	deleting   int
	grace      time.Duration
	unheld     bool // some are being deleted and no finalizer holds them
	names      []string
	holders    []phase.Holder // in the order in which they were met
	unexpected int            // objects that nothing keeps and nobody deletes
	surprises  []string       // names of some of those
	seen       string
}

// maxHolders bounds how many finalizers a report tells apart in one type.
const maxHolders = 64

// otherFinalizers counts the objects held by a finalizer beyond those.
const otherFinalizers = "(other finalizers)"

// goes reports whether the deletion of the object is under way.
func (i Item) goes() bool { return i.Deleting || i.Grace > 0 }

func (t *tally) add(items ...Item) {
	for i := range items {
		t.addOne(items[i])
	}
}

func (t *tally) addOne(item Item) {
	t.count++
	t.names = sample(t.names, item.Name, t.samples)
	t.grace = max(t.grace, item.Grace)
	switch {
	case item.goes():
		t.deleting++
		t.unheld = t.unheld || len(item.Finalizers) == 0
	case len(item.Finalizers) == 0:
		t.unexpected++
		t.surprises = sample(t.surprises, item.Name, t.samples)
	}
	others := false
	for i, finalizer := range item.Finalizers {
		if slices.Contains(item.Finalizers[:i], finalizer) {
			continue
		}
		at := slices.IndexFunc(t.holders, func(h phase.Holder) bool { return h.Finalizer == finalizer })
		if at < 0 && len(t.holders) >= maxHolders {
			others = true
			continue
		}
		t.hold(at, finalizer, item.Name)
	}
	if others {
		t.hold(slices.IndexFunc(t.holders, func(h phase.Holder) bool { return h.Finalizer == otherFinalizers }), otherFinalizers, item.Name)
	}
}

// hold counts one object to the holder at index at; a new one if that is negative.
func (t *tally) hold(at int, finalizer, object string) {
	if at < 0 {
		at = len(t.holders)
		t.holders = append(t.holders, phase.Holder{Finalizer: finalizer})
	}
	h := &t.holders[at]
	h.Objects++
	h.Sample = sample(h.Sample, object, t.samples)
}

// sample keeps the first names in order: the same ones whatever the order of the listing.
func sample(names []string, name string, most int) []string {
	if len(names) == most {
		if name >= names[most-1] {
			return names
		}
		names = names[:most-1]
	}
	at, _ := slices.BinarySearch(names, name)
	return slices.Insert(names, at, name)
}

// into sets the counts, the estimate and the mark of r.
func (t *tally) into(r *Result) {
	t.counts(r)
	r.Estimate = t.grace
	r.Seen = t.seen
}

// counts sets only the counts of r.
func (t *tally) counts(r *Result) {
	slices.SortFunc(t.holders, func(a, b phase.Holder) int { return cmp.Compare(a.Finalizer, b.Finalizer) })
	r.Remaining = t.count
	r.Deleting = t.deleting
	r.Holders = t.holders
	r.Sample = t.names
}

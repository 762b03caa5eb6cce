package deleter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/multierr"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// maxRestarts bounds how often a listing starts over because its token expired.
const maxRestarts = 3

// scan lists page by page until the end, or until take returns false. take adds the items of
// a page to the tally. If a token expires, the listing starts over. On an error scan returns
// the largest tally of all attempts.
func (v *visit) scan(ctx context.Context, take func(*tally, Page) bool) (*tally, error) {
	var most *tally
	for restarts := 0; ; restarts++ {
		t := &tally{samples: v.opts.Samples}
		err := v.pages(ctx, t, take)
		if err == nil {
			return t, nil
		}
		if most == nil || t.count >= most.count {
			most = t
		}
		if !errors.Is(err, ErrExpired) || restarts == maxRestarts {
			return most, err
		}
	}
}

// addAll adds every page to the tally.
func addAll(t *tally, p Page) bool {
	t.add(p.Items...)
	return true
}

func (v *visit) pages(ctx context.Context, t *tally, take func(*tally, Page) bool) error {
	op, list := OpList, v.source.Content.List
	if v.viewer != nil {
		op, list = OpView, v.viewer.View
	}
	next := ""
	var tokens loopDetector
	for first := true; ; first = false {
		var page Page
		err := v.call(ctx, op, func(ctx context.Context) (_ int, err error) {
			page, err = list(ctx, v.target, v.opts.PageSize, next)
			return len(page.Items), err
		})
		// A page that arrived too late shows objects too.
		v.shown = max(v.shown, plus(t.count+len(page.Items), max(page.Remaining, 0)))
		if err != nil {
			return err
		}
		if first {
			// The position of the first page, so that a Notifier also reports objects that
			// disappear between two pages.
			t.seen = page.Seen
		}
		if i := slices.IndexFunc(page.Items, func(item Item) bool { return item.Name == "" }); i >= 0 {
			t.add(page.Items[:i]...)
			return errNoName
		}
		more := take(t, page)
		switch {
		case page.Next == "":
			return nil
		case !more:
			t.count = plus(t.count, max(page.Remaining, 0))
			return context.Cause(ctx)
		case tokens.repeats(page.Next):
			return errSameToken
		}
		next = page.Next
	}
}

// loopDetector finds a cycle of any length in a sequence of tokens with Brent's algorithm:
// it compares each token with one that it replaces at growing distances.
type loopDetector struct {
	saved       string
	steps, upTo int
}

func (d *loopDetector) repeats(token string) bool {
	if d.upTo > 0 && token == d.saved {
		return true
	}
	if d.steps++; d.steps > d.upTo {
		d.saved, d.steps, d.upTo = token, 0, max(1, 2*d.upTo)
	}
	return false
}

// tally adds up a listing in bounded memory.
type tally struct {
	samples         int
	count           int
	deleting        int
	grace           time.Duration
	unheld          bool // an object is being deleted and no finalizer holds it
	names           []string
	holders         []phase.Holder // in the order of the listing
	unexpected      int            // objects that are neither held nor being deleted
	unexpectedNames []string
	seen            string
}

// maxHolders bounds the number of distinct finalizers in the report of one type.
const maxHolders = 64

// otherFinalizers counts the objects with finalizers beyond maxHolders.
const otherFinalizers = "(other finalizers)"

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
	case item.terminating():
		t.deleting++
		t.unheld = t.unheld || len(item.Finalizers) == 0
	case len(item.Finalizers) == 0:
		t.unexpected++
		t.unexpectedNames = sample(t.unexpectedNames, item.Name, t.samples)
	}
	others := false
	for i, finalizer := range item.Finalizers {
		switch {
		case slices.Contains(item.Finalizers[:i], finalizer):
		case t.holder(finalizer) < 0 && len(t.holders) >= maxHolders:
			others = true
		default:
			t.hold(finalizer, item.Name)
		}
	}
	if others {
		t.hold(otherFinalizers, item.Name)
	}
}

// holder returns the index of the holder with that finalizer, or -1.
func (t *tally) holder(finalizer string) int {
	return slices.IndexFunc(t.holders, func(h phase.Holder) bool { return h.Finalizer == finalizer })
}

// hold counts one object for finalizer.
func (t *tally) hold(finalizer, object string) {
	at := t.holder(finalizer)
	if at < 0 {
		at = len(t.holders)
		t.holders = append(t.holders, phase.Holder{Finalizer: finalizer})
	}
	h := &t.holders[at]
	h.Objects++
	h.Sample = sample(h.Sample, object, t.samples)
}

// sample inserts name and keeps the first most names, so that the result does not depend on
// the order of the listing.
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

// into sets the counts, the estimate and the position of r.
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

// maxFailures bounds the number of distinct failures in the report of one type.
const maxFailures = 8

// failures collects the failures of one source. Objects that fail in the same way count as
// one failure, so that 100,000 failing objects do not fill a report.
type failures struct {
	mu      sync.Mutex
	errs    []*SourceError // sorted by operation and cause
	dropped int            // failures beyond maxFailures
}

func (f *failures) add(e *SourceError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, same := slices.BinarySearchFunc(f.errs, e, func(a, b *SourceError) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(fmt.Sprint(a.Err), fmt.Sprint(b.Err)))
	})
	if same {
		first := f.errs[at]
		e.Others = first.Others + 1
		if first.Object <= e.Object {
			e.Object, e.Err = first.Object, first.Err
		}
		f.errs[at] = e
		return
	}
	f.errs = slices.Insert(f.errs, at, e)
	if len(f.errs) > maxFailures {
		f.errs = f.errs[:maxFailures]
		f.dropped++
	}
}

func (f *failures) none() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.errs) == 0
}

// err returns all failures as one error, or nil.
func (f *failures) err(resource namespace.ResourceType) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all error
	for _, e := range f.errs {
		all = multierr.Append(all, e)
	}
	if f.dropped > 0 {
		all = multierr.Append(all, &SourceError{Resource: resource, Err: fmt.Errorf("%d further failures", f.dropped)})
	}
	return all
}

// itemLog keeps the items of a listing for an inventory. If the listing starts over, it
// starts over too.
type itemLog struct {
	listing *tally // the listing that items belong to
	items   []Item
	longest []Item // of the earlier listings
}

func (l *itemLog) add(listing *tally, items []Item) {
	if listing != l.listing {
		l.longest = l.most()
		l.items, l.listing = nil, listing
	}
	l.items = append(l.items, items...)
}

func (l *itemLog) most() []Item {
	if len(l.items) >= len(l.longest) {
		return l.items
	}
	return l.longest
}

// appendTo appends the objects to list, in order and without duplicates.
func (l *itemLog) appendTo(list []Object, r Result) []Object {
	items := l.items
	if r.Err != nil {
		items = l.most()
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

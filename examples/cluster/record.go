package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// record is what the replicas have said so far. Safe for concurrent use.
type record struct {
	mu      sync.Mutex
	changed chan struct{} // closed by the next line
	members map[string]int
	emptied map[string]int // tenants, by replica
	calls   map[string]int // to content, by replica
	types   int            // calls for one type of one tenant, the most
	each    map[[2]string]int
	passes  map[string][]span // by tenant
	moves   []move
}

// move is a change of the members that a replica was told of, or its lapse.
type move struct {
	replica string
	at      time.Time
}

// span is one pass.
type span struct {
	replica    string
	began, end time.Time // end is zero while it runs, or when its process was killed
}

func newRecord() *record {
	return &record{
		changed: make(chan struct{}),
		members: map[string]int{},
		emptied: map[string]int{},
		calls:   map[string]int{},
		each:    map[[2]string]int{},
		passes:  map[string][]span{},
	}
}

// add takes up a line.
func (r *record) add(s said) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch s.Message {
	case saidMembers:
		r.members[s.Replica] = s.Members
		r.moves = append(r.moves, move{s.Replica, s.Time})
	case saidLapsed:
		delete(r.members, s.Replica)
		r.moves = append(r.moves, move{s.Replica, s.Time})
	case saidEmptied:
		r.emptied[s.Replica]++
	case saidCall:
		key := [2]string{s.Namespace, s.Type}
		r.calls[s.Replica]++
		r.each[key]++
		r.types = max(r.types, r.each[key])
	case saidStarted:
		r.passes[s.Namespace] = append(r.passes[s.Namespace], span{replica: s.Replica, began: s.Time})
	case saidEnded:
		passes := r.passes[s.Namespace]
		for i := range passes {
			if passes[i].replica == s.Replica && passes[i].end.IsZero() {
				passes[i].end = s.Time
			}
		}
	default:
		return
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// lost takes up that a replica is gone.
func (r *record) lost(replica string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, replica)
}

// await waits until done answers true. It is called with the record locked.
func (r *record) await(ctx context.Context, what string, done func() bool) error {
	for {
		r.mu.Lock()
		ok, changed := done(), r.changed
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
		}
	}
}

// group returns once n replicas are members, and know that.
func (r *record) group(ctx context.Context, n int) error {
	return r.await(ctx, fmt.Sprintf("%d replicas know of each other", n), func() bool {
		known := 0
		for _, members := range r.members {
			if members == n {
				known++
			}
		}
		return known == n
	})
}

// total returns the sum of counts.
func total(counts map[string]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// shares tells counts by replica.
func shares(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// overlap is two passes of different replicas for one tenant at the same time.
type overlap struct {
	tenant        string
	first, second span
}

// figures returns the number of passes, and those beside another. A pass without an
// end is none: its process was killed.
func (r *record) figures() (passes int, double []overlap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for tenant, spans := range r.passes {
		passes += len(spans)
		spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int {
			return cmp.Or(a.began.Compare(b.began), strings.Compare(a.replica, b.replica))
		})
		for i := range spans[1:] {
			a, b := spans[i], spans[i+1]
			if a.replica != b.replica && !a.end.IsZero() && b.began.Before(a.end) {
				double = append(double, overlap{tenant, a, b})
			}
		}
	}
	return passes, double
}

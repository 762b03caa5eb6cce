package debug

import (
	"context"
	"sync"
	"time"
)

// countAge is how old a count may be on a page that is kept up to date. A store may have
// to go through all namespaces to count them, which is too much for every turn of it;
// whoever asks once is told how many there are now.
const countAge = 15 * time.Second

// tally is how many namespaces there were when they were counted last.
type tally struct {
	active, terminating int
	at                  time.Time
}

// lastTally is the last tally, of any page.
type lastTally struct {
	mu sync.Mutex
	tally
}

func (l *lastTally) get() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally
}

func (l *lastTally) set(t tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.at.After(l.at) {
		l.tally = t
	}
}

// count tells how many namespaces there are, if the place counts them.
func (h *Handler) count(ctx context.Context, x *index, oldest time.Duration) {
	counter, ok := h.namespaces.(Counter)
	if !ok {
		return
	}
	t := h.tally.get()
	if x.At.Sub(t.at) >= oldest {
		t.at = x.At
		err := safely(func() (err error) {
			t.active, t.terminating, err = counter.Count(ctx)
			return err
		})
		if err != nil {
			x.note("namespaces could not be counted: %v", err)
			return
		}
		h.tally.set(t)
	}
	x.Active, x.Counted = &t.active, t.at
	if x.AtLeast { // else what is listed is later, and agrees with the table
		x.Terminating, x.AtLeast = max(t.terminating, x.Terminating), false
	}
}

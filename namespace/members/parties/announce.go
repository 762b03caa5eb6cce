package parties

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/store"
)

// Announce says in s, until ctx ends, that an instance of the party that owns f is
// there; then it says that it has left, which takes a Beat at most, and returns nil, or
// why that could not be said: the instance is missing after its Patience then. It works
// in the caller's goroutine and starts no other; run it beside the party's controller.
// Any number of instances may run, also in one process.
//
// No failure of the store ends it but [store.ErrClosed]: calls are repeated with a
// growing delay, of a Beat at most. A missing context or store, an invalid finalizer and
// options out of range are refused with [store.ErrInvalid], before anything is written.
// Nil opts are all defaults.
func Announce(ctx context.Context, s store.Store, f finalizer.Name, opts *Options) error {
	if ctx == nil {
		return invalid("a party needs a context to be announced")
	}
	if s == nil {
		return invalid("a party needs a store to be announced in")
	}
	if err := f.Validate(); err != nil {
		return invalid("%w", err)
	}
	options, err := opts.withDefaults()
	if err != nil {
		return err
	}
	prefix := options.below(f)
	a := &announcer{
		store:   s,
		prefix:  prefix,
		key:     prefix + newID(),
		options: options,
		value:   value{Label: options.Label, Contact: options.Contact, Patience: options.Patience.String()},
	}
	if err := a.run(ctx); err != nil {
		return fmt.Errorf("parties: announce %s as %q: %w", f, options.Label, err)
	}
	return nil
}

// newID returns a random id, so that no two instances share an entry.
func newID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// announcer is one Announce.
type announcer struct {
	store    store.Store
	prefix   string // of the entries of the party's instances
	key      string // of its own
	options  Options
	value    value          // written last, or tried to be
	revision store.Revision // that the own entry is believed to have; zero: none
	known    bool           // the last beat was written
	failures int            // of beats in a row
	others   map[string]sighting
	swept    time.Time // when the entries of others were looked at last; zero: never
}

func (a *announcer) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return a.leave(ctx)
		}
		sent := time.Now()
		err := a.beat(ctx)
		switch {
		case errors.Is(err, store.ErrClosed):
			return err
		case ctx.Err() != nil: // whatever failed, and whatever else is due
		case err != nil:
			a.failed(err)
			timer.Reset(a.delay())
		default:
			a.announced()
			a.tidy(ctx)
			timer.Reset(time.Until(sent.Add(a.options.Beat)))
		}
	}
}

// beat writes that the instance is there.
func (a *announcer) beat(ctx context.Context) error {
	a.value.Seen = time.Now().UTC().Truncate(time.Millisecond)
	if a.value.Since.IsZero() {
		a.value.Since = a.value.Seen
	}
	return a.write(ctx, a.options.Beat)
}

// leave writes that it is not there any more, if anybody may think it is.
func (a *announcer) leave(ctx context.Context) error {
	if a.value.Since.IsZero() {
		return nil // nothing was ever written
	}
	a.value.Seen, a.value.Left = time.Now().UTC().Truncate(time.Millisecond), true
	if err := a.write(context.WithoutCancel(ctx), a.options.Beat); err != nil {
		return fmt.Errorf("leave (it will be missing after %v): %w", a.options.Patience, err)
	}
	return nil
}

// write puts the value, under the condition that the entry is as it is known. So a
// write of unknown outcome that is late never undoes a later one. If the entry is
// otherwise, it is known now, and written again.
func (a *announcer) write(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	data, err := a.value.encode()
	if err != nil {
		return err // a clock beyond the year 9999
	}
	const tries = 4 // somebody else writes it, against the rules
	for range tries {
		condition := store.Absent(a.key)
		if a.revision > 0 {
			condition = store.At(a.key, a.revision)
		}
		var revision store.Revision
		revision, err = a.store.Commit(ctx, store.Txn{If: []store.Condition{condition}, Do: []store.Operation{store.Put(a.key, data)}})
		if err == nil {
			a.revision = revision
			return nil
		}
		conflict := (*store.ConflictError)(nil)
		if !errors.As(err, &conflict) {
			return err
		}
		a.revision = 0
		if conflict.Current != nil {
			a.revision = conflict.Current.Revision
		}
	}
	return err
}

func (a *announcer) announced() {
	if !a.known && a.options.Hooks.Announced != nil {
		a.options.Hooks.Announced()
	}
	a.known, a.failures = true, 0
}

func (a *announcer) failed(err error) {
	a.known = false
	a.failures++
	if a.options.Hooks.Failed != nil {
		a.options.Hooks.Failed(fmt.Errorf("parties: announce: %w", err))
	}
}

// delay is how long to wait after so many failures: an eighth of a Beat, twice as long
// each time up to a Beat, and up to a quarter less at random.
func (a *announcer) delay() time.Duration {
	return backoff.Exponential{Min: a.options.Beat / 8, Max: a.options.Beat}.Delay(a.failures - 1)
}

package parties

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/members/internal/instance"
	"github.com/nslifecycle/nslifecycle/store"
)

// Announce records in s, until ctx ends, that an instance of the party that owns f is
// running. Run it beside the party's controller. It works in the caller's goroutine and
// starts no other. Any number of instances may run, also in one process.
//
// When ctx ends, Announce records within a Beat that the instance has left, and returns nil.
// If it cannot, it returns the cause, and the instance counts as missing after its
// Patience.
//
// Of the failures of the store only [store.ErrClosed] ends Announce. After others it retries
// with a delay that grows up to a Beat. An invalid f or option is an error at once. A nil
// opts selects the defaults.
func Announce(ctx context.Context, s store.Store, f finalizer.Name, opts *Options) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("parties: %w", err)
	}
	var options Options
	if opts != nil {
		options = *opts
	}
	if err := options.Validate(); err != nil {
		return err
	}
	options = options.withDefaults()
	prefix := rootOf(options.Prefix) + string(f) + "/"
	a := &announcer{
		store:   s,
		prefix:  prefix,
		key:     prefix + instance.NewID(),
		options: options,
		value:   value{Label: options.Label, Contact: options.Contact, Patience: options.Patience.String()},
	}
	if err := a.run(ctx); err != nil {
		return fmt.Errorf("parties: announce %s as %q: %w", f, options.Label, err)
	}
	return nil
}

// announcer is one Announce.
type announcer struct {
	store    store.Store
	prefix   string // of the entries of the party's instances
	key      string // of its own entry
	options  Options
	value    value                  // of the last write
	revision store.Revision         // of its own entry, as far as known; zero: none
	failures int                    // consecutive failed beats
	known    bool                   // the last beat was written
	others   map[string]observation // entries of other instances, by key
	cleaned  time.Time              // when removeDead last succeeded
}

func (a *announcer) run(ctx context.Context) error {
	for delay := time.Duration(0); ; {
		if backoff.Sleep(ctx, delay) != nil {
			return a.leave(ctx)
		}
		sent := time.Now()
		err := a.beat(ctx)
		switch {
		case errors.Is(err, store.ErrClosed):
			return err
		case ctx.Err() != nil:
			return a.leave(ctx)
		case err != nil:
			a.known = false
			delay = backoff.Exponential{Min: a.options.Beat / 8, Max: a.options.Beat}.Delay(a.failures)
			a.failures++
			a.failed(fmt.Errorf("parties: announce: %w", err))
		default:
			if !a.known && a.options.Hooks.Announced != nil {
				a.options.Hooks.Announced()
			}
			a.known, a.failures = true, 0
			a.clean(ctx)
			delay = time.Until(sent.Add(a.options.Beat))
		}
	}
}

func (a *announcer) failed(err error) {
	if a.options.Hooks.Failed != nil {
		a.options.Hooks.Failed(err)
	}
}

// beat records that the instance is running.
func (a *announcer) beat(ctx context.Context) error {
	a.value.Seen = time.Now().UTC().Truncate(time.Millisecond)
	if a.value.Since.IsZero() {
		a.value.Since = a.value.Seen
	}
	return a.write(ctx)
}

// leave records that the instance has left, if a beat may have been written.
func (a *announcer) leave(ctx context.Context) error {
	if a.value.Since.IsZero() {
		return nil
	}
	a.value.Seen, a.value.Left = time.Now().UTC().Truncate(time.Millisecond), true
	if err := a.write(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("leave (it will be missing after %v): %w", a.options.Patience, err)
	}
	return nil
}

// maxConflicts limits the attempts of one write. Only processes that break the rules of this
// package write the entry of another instance.
const maxConflicts = 4

// write puts the value, on condition of the entry's known revision. So a late write of
// unknown outcome never undoes a later one. After a conflict it repeats the write with the
// current revision.
func (a *announcer) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.options.Beat)
	defer cancel()
	data, err := a.value.encode()
	if err != nil {
		return err // the clock is beyond the year 9999
	}
	for range maxConflicts {
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

// maxInstances bounds the entries of one party. Beyond it the instances that were silent for
// longest are removed, in case the processes of a party die young.
const maxInstances = 256

// observation is the entry of another instance.
type observation struct {
	revision store.Revision
	since    time.Time // when this revision was first observed, by the own clock
}

// clean removes the dead instances of the party, once each Patience. The own entry has just
// been written, so the party stays known.
func (a *announcer) clean(ctx context.Context) {
	now := time.Now()
	if !a.cleaned.IsZero() && now.Sub(a.cleaned) < a.options.Patience {
		return
	}
	within, cancel := context.WithTimeout(ctx, a.options.Beat/2) // the next beat is due
	defer cancel()
	switch err := a.removeDead(within, now); {
	case err == nil:
		a.cleaned = now
	case ctx.Err() == nil:
		a.failed(fmt.Errorf("parties: remove dead instances: %w", err))
	}
}

// removeDead removes the instances that have left or were silent for their Patience. It
// judges silence by the revisions of their entries and its own clock.
func (a *announcer) removeDead(ctx context.Context, now time.Time) error {
	entries, err := list(ctx, a.store, a.prefix)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(x, y store.Entry) int { return cmp.Compare(y.Revision, x.Revision) })
	others := make(map[string]observation, min(len(entries), maxInstances))
	var dead []store.Entry
	for _, e := range entries {
		// The rest of the key has a slash if it belongs to a party whose name begins with
		// the name of this one.
		if e.Key == a.key || strings.Contains(e.Key[len(a.prefix):], "/") {
			continue
		}
		o := observation{e.Revision, now}
		if old := a.others[e.Key]; old.revision == e.Revision {
			o = old
		}
		v, _ := decode(e.Value)
		silent := now.Sub(o.since) >= max(v.patience(), a.options.Patience)
		if v.Left || silent || len(others) >= maxInstances-1 {
			dead = append(dead, e)
			continue
		}
		others[e.Key] = o
	}
	a.others = others
	for _, e := range dead {
		_, err := a.store.Commit(ctx, store.Txn{If: []store.Condition{store.At(e.Key, e.Revision)}, Do: []store.Operation{store.Delete(e.Key)}})
		if err != nil && !errors.Is(err, store.ErrConflict) { // it is alive, or was removed by another instance
			return err
		}
	}
	return nil
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/stretchr/testify/require"
)

// The verbs of the cases. Each fails the case if the store fails.

func (t *trial) commit(txn store.Txn) store.Revision {
	r, err := t.store.Commit(t.ctx, txn)
	require.NoError(t, err, "Commit(%s)", show(txn))
	return r
}

func (t *trial) put(key, value string) store.Revision {
	return t.commit(store.Txn{Do: []store.Operation{store.Put(key, []byte(value))}})
}

func (t *trial) delete(key string) store.Revision {
	return t.commit(store.Txn{Do: []store.Operation{store.Delete(key)}})
}

func (t *trial) get(key string) store.Entry {
	e, err := t.store.Get(t.ctx, key)
	require.NoError(t, err, "Get(%q)", key)
	return e
}

// holds checks that key has exactly this value and revision.
func (t *trial) holds(key, value string, revision store.Revision) {
	t.equal(entry(key, value, revision), t.get(key), "Get(%q)", key)
}

// absent checks that there is no entry at key.
func (t *trial) absent(key string) {
	e, err := t.store.Get(t.ctx, key)
	require.ErrorIs(t, err, store.ErrNotFound, "Get(%q) answered %v", key, e)
}

func (t *trial) list(q store.Query) store.Page {
	p, err := t.store.List(t.ctx, q)
	require.NoError(t, err, "List(%s)", showQuery(q))
	return p
}

// now returns the current position of the store.
func (t *trial) now() store.Position {
	return t.list(store.Query{Limit: 1}).Position
}

// conflict checks that txn fails because of the condition want, with the entry current.
func (t *trial) conflict(txn store.Txn, want store.Condition, current *store.Entry) {
	r, err := t.store.Commit(t.ctx, txn)
	require.ErrorIs(t, err, store.ErrConflict, "Commit(%s) answered revision %d", show(txn), r)
	var conflict *store.ConflictError
	require.ErrorAs(t, err, &conflict, "Commit(%s)", show(txn))
	t.equal(want, conflict.Condition, "the condition in the error of Commit(%s)", show(txn))
	t.equal(current, conflict.Current, "the current entry in the error of Commit(%s)", show(txn))
}

// unchanged runs f and checks that it changed neither the entries nor the revision.
func (t *trial) unchanged(what string, f func()) {
	before := t.list(store.Query{})
	f()
	t.equal(before, t.list(store.Query{}), "the store after %s", what)
}

// equal checks that got is want. nil and empty are the same.
func (t *trial) equal(want, got any, format string, args ...any) {
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.fatalf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

func entry(key, value string, revision store.Revision) store.Entry {
	return store.Entry{Key: key, Value: []byte(value), Revision: revision}
}

func show(txn store.Txn) string {
	var do []string
	for i, op := range txn.Do {
		if i == 8 {
			do = append(do, "...")
			break
		}
		verb := "put"
		if op.Delete {
			verb = "delete"
		}
		do = append(do, fmt.Sprintf("%s %.40q", verb, op.Key))
	}
	if len(txn.If) > 8 {
		return fmt.Sprintf("if %d conditions, do %v", len(txn.If), do)
	}
	return fmt.Sprintf("if %v, do %v", txn.If, do)
}

func showQuery(q store.Query) string {
	return fmt.Sprintf("prefix %q, after %q, limit %d, at %v", q.Prefix, q.After, q.Limit, q.At)
}

// watcher is one watch, read change by change, so that a case controls its speed.
type watcher struct {
	t      *trial
	prefix string
	next   func() (store.Change, error, bool)
	stop   func()
}

// watch begins a watch that ends with the case.
func (t *trial) watch(prefix string, after store.Position) *watcher {
	return t.watchOf(t.ctx, t.store, prefix, after)
}

func (t *trial) watchOf(ctx context.Context, s store.Store, prefix string, after store.Position) *watcher {
	ctx, cancel := context.WithCancelCause(ctx)
	t.cleanup(func() { cancel(nil) })
	pull, stop := iter.Pull2(s.Watch(ctx, prefix, after))
	t.cleanup(stop)
	next := func() (store.Change, error, bool) {
		timer := time.AfterFunc(t.b.patience(), func() { cancel(errPatience) })
		defer timer.Stop()
		return pull()
	}
	return &watcher{t: t, prefix: prefix, next: next, stop: stop}
}

// errPatience is the cancellation cause of a watch that delivers no change in time.
var errPatience = errors.New("the watch yielded no change in time")

// change returns the next change, which may be a bookmark.
func (w *watcher) change(waitingFor string) store.Change {
	w.t.doing("waiting for %s on a watch of %q", waitingFor, w.prefix)
	c, err, ok := w.next()
	if !ok {
		w.t.fatalf("the watch of %q ended without an error before it yielded %s", w.prefix, waitingFor)
	}
	require.NoError(w.t, err, "the watch of %q failed before it yielded %s", w.prefix, waitingFor)
	return c
}

// events returns the next change that has events.
func (w *watcher) events(waitingFor string) store.Change {
	for {
		if c := w.change(waitingFor); !c.Bookmark() {
			return c
		}
	}
}

// until returns the changes with events up to revision. The watch must reach it with an event or
// a bookmark.
func (w *watcher) until(revision store.Revision) []store.Change {
	var seen []store.Change
	for {
		c := w.change(fmt.Sprintf("revision %d, after %d changes", revision, len(seen)))
		if !c.Bookmark() {
			seen = append(seen, c)
		}
		if c.Position.Revision >= revision {
			return seen
		}
	}
}

// ends checks that the watch ends with an error that matches target, after any changes.
func (w *watcher) ends(target error) {
	w.t.doing("waiting for a watch of %q to end with %q", w.prefix, target)
	for {
		_, err, ok := w.next()
		if !ok {
			w.t.fatalf("the watch of %q ended without an error instead of %q", w.prefix, target)
		}
		if err != nil {
			w.last(err, target)
			return
		}
	}
}

// refused checks that the watch ends with an error that matches target, before any change.
func (w *watcher) refused(target error) {
	w.t.doing("waiting for a watch of %q to be refused with %q", w.prefix, target)
	c, err, ok := w.next()
	if !ok || err == nil {
		w.t.fatalf("the watch of %q must fail at once with %q, but yielded %v", w.prefix, target, c)
	}
	w.last(err, target)
}

func (w *watcher) last(err, target error) {
	require.ErrorIs(w.t, err, target, "the last error of a watch of %q", w.prefix)
	_, _, more := w.next()
	require.False(w.t, more, "the watch of %q continues after its error", w.prefix)
}

// revisions returns the revisions of changes.
func revisions(changes []store.Change) []store.Revision {
	var all []store.Revision
	for _, c := range changes {
		all = append(all, c.Position.Revision)
	}
	return all
}

// fold applies changes to a state of keys and values, as a cache would.
func fold(state map[string]string, changes []store.Change) {
	for _, c := range changes {
		for _, e := range c.Events {
			if e.Deleted {
				delete(state, e.Key)
			} else {
				state[e.Key] = string(e.Value)
			}
		}
	}
}

// values returns the state of a page.
func values(p store.Page) map[string]string {
	state := make(map[string]string, len(p.Entries))
	for _, e := range p.Entries {
		state[e.Key] = string(e.Value)
	}
	return state
}

// definite reports whether an error of Commit means that nothing happened.
func definite(err error) bool { return err != nil && !errors.Is(err, store.ErrUnknownOutcome) }

func sortEntries(entries []store.Entry) {
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
}

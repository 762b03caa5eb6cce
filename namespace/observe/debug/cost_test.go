package debug_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

// owned is a place whose namespaces have a finalizer and were forced once.
type owned struct{ *place }

func (o owned) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	ns, err := o.place.Get(ctx, name)
	ns.Spec.Finalizers = finalizer.NewSet("example.com/owner")
	ns.Status.Phase = phase.Terminating
	return ns, err
}

// asked counts the calls of an explainer.
type asked struct{ parties, records, record atomic.Int64 }

func (a *asked) options(fail error) *explain.Options {
	return &explain.Options{
		Parties: func(context.Context) ([]parties.Party, error) {
			a.parties.Add(1)
			return []parties.Party{{Finalizer: "example.com/owner", Alive: true, LastSeen: time.Now()}}, fail
		},
		Records: func(_ context.Context, name string) ([]audit.Record, error) {
			a.records.Add(1)
			return []audit.Record{
				{ID: "1", Action: audit.Forcing, Namespace: name, UID: "uid-of-" + name, Objects: 3},
				{ID: "2", Action: audit.Forced, Namespace: name, UID: "uid-of-" + name, Follows: "1"},
			}, nil
		},
		Record: func(_ context.Context, name, id string) (audit.Record, error) {
			a.record.Add(1)
			return audit.Record{ID: id, Action: audit.Forcing, Namespace: name, UID: "uid-of-" + name, Inventory: &audit.Inventory{}}, nil
		},
	}
}

func (a *asked) take() [3]int64 {
	return [3]int64{a.parties.Swap(0), a.records.Swap(0), a.record.Swap(0)}
}

// An index that explains many namespaces reads the announced parties once, and no inventory.
// The page of a namespace has all of it.
func TestIndexIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		for i := range 20 {
			p.set(going(fmt.Sprint("n", i), time.Now().Add(-time.Hour)))
		}
		var a asked
		h := newHandler(t, owned{p}, explain.New(owned{p}, a.options(nil)), nil)
		for range 2 {
			page := get(h, "/").Body.String()
			require.Equal(t, [3]int64{1, 20, 0}, a.take())
			require.Equal(t, 20, strings.Count(page, `<span class="chip good" title="its owner is alive">`))
			time.Sleep(2 * time.Second)
		}
		get(h, "/?namespace=n1")
		require.Equal(t, [3]int64{1, 1, 1}, a.take())
	})
}

// If the announced parties cannot be listed, owners are unknown, not missing.
func TestPartiesFail(t *testing.T) {
	p := newPlace(going("one", time.Now().Add(-time.Hour)))
	var a asked
	for name, options := range map[string]*explain.Options{"it fails": a.options(errors.New("no answer")), "none are known": {}} {
		t.Run(name, func(t *testing.T) {
			h := newHandler(t, owned{p}, explain.New(owned{p}, options), nil)
			text := get(h, "/?format=json").Body.String()
			require.Contains(t, text, `"asked": false`)
			require.NotContains(t, text, `"error"`)
		})
	}
}

// If listing the parties fails slowly, an index waits for it once, not once for each namespace.
func TestSlowPartiesDelayTheIndexOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace()
		for i := range 100 {
			p.set(going(fmt.Sprint("n", i), time.Now().Add(-time.Hour)))
		}
		var a asked
		options := a.options(nil)
		options.Parties = func(context.Context) ([]parties.Party, error) {
			a.parties.Add(1)
			time.Sleep(time.Second)
			return nil, errors.New("no answer")
		}
		h := newHandler(t, owned{p}, explain.New(owned{p}, options), nil)
		text := get(h, "/?format=json").Body.String()
		require.Equal(t, [3]int64{1, 100, 0}, a.take())
		require.Equal(t, 100, strings.Count(text, `"causes"`))
		require.NotContains(t, text, `"error"`)
	})
}

// counted counts how often it is counted.
type counted struct {
	*place
	mu   sync.Mutex
	n    int
	fail error
}

func (c *counted) Count(context.Context) (active, terminating int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return 1000 + c.n, 0, c.fail
}

// A request counts the namespaces now. Updates of open pages reuse a count for a while, because
// a store may have to scan all namespaces.
func TestCountIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{place: newPlace()}
		h := newHandler(t, c, c, nil)
		for n := range 3 {
			require.Contains(t, get(h, "/").Body.String(), fmt.Sprintf("1,%03d", n+1))
		}
		text := get(h, "/?format=json").Body.String()
		require.Contains(t, text, `"active": 1004`)
		require.Contains(t, text, `"counted": "`+time.Now().UTC().Format(time.RFC3339))

		ctx, leave := context.WithCancel(t.Context())
		done := view(ctx, h, newWire(), indexEvents)
		time.Sleep(time.Minute) // thirty turns
		synctest.Wait()
		leave()
		<-done
		require.InDelta(t, 4+4, c.n, 1)

		c.fail = errors.New("cannot count")
		before := c.n
		for range 2 { // a failed count is not reused
			page := get(h, "/").Body.String()
			require.Contains(t, page, "the namespaces could not be counted: cannot count")
			require.NotContains(t, page, "1,00")
		}
		require.Equal(t, before+2, c.n)
	})
}

// The notes of a large index contain the numbers.
func TestNotesOfMany(t *testing.T) {
	p := newPlace()
	for i := range 3000 {
		p.set(going(fmt.Sprintf("n%04d", i), time.Now().Add(-time.Duration(i)*time.Second)))
	}
	h := newHandler(t, p, p, nil)
	page := get(h, "/").Body.String()
	require.Contains(t, page, "the ages of 2000 terminating namespaces are not known yet")
	require.Contains(t, page, "showing the oldest 100 of the 1000 terminating namespaces with a known age")
	get(h, "/")
	page = get(h, "/").Body.String()
	require.NotContains(t, page, "not known yet")
	require.Contains(t, page, "showing the oldest 100 of 3000 terminating namespaces")
}

// If only ages change, open pages are updated rarely.
func TestOnlyOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := going("one", time.Now().Add(-time.Hour))
		d.Next = &explain.Next{At: time.Now().Add(time.Hour), Reason: "failed"}
		p := newPlace(d)
		h := newHandler(t, p, p, nil)
		ctx, leave := context.WithCancel(t.Context())
		wires := map[string]*wire{indexEvents: newWire(), oneEvents: newWire()}
		var done []<-chan struct{}
		for target, w := range wires {
			done = append(done, view(ctx, h, w, target))
		}
		synctest.Wait()
		for _, w := range wires {
			w.take()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for target, w := range wires {
			events := strings.Count(w.take(), "data: <dl class=\"tiles\">")
			require.Equal(t, 3, events, "%s: every 16 s", target)
		}
		late := newWire() // gets the last reading
		done = append(done, view(ctx, h, late, indexEvents))
		synctest.Wait()
		require.Contains(t, late.take(), time.Now().UTC().Format("15:04:05 UTC"))

		changed := d
		changed.Causes = []explain.Cause{{Kind: explain.Held, Summary: "another cause"}}
		p.set(changed)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for target, w := range wires {
			require.Contains(t, w.take(), "another cause", target)
		}
		leave()
		for _, d := range done {
			<-d
		}
	})
}

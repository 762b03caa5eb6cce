package deleter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
)

const wait = deleter.OpWait

func heldFor(d time.Duration) contenttest.Object {
	return contenttest.Object{Name: "held", Finalizers: []string{"example.com/hold"}, HeldFor: d}
}

// Wait ends with the first source that notices a change, also if the others cannot wait,
// fail, panic or sleep.
func TestWait(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sources func() map[string]deleter.Content // made inside the bubble
		want    time.Duration
		is      error
	}{
		{
			name: "the first of several", want: time.Second,
			sources: func() map[string]deleter.Content {
				return map[string]deleter.Content{"a": fake(nil, heldFor(time.Minute)), "b": fake(nil, heldFor(time.Second))}
			},
		},
		{
			name: "others fail", want: time.Second,
			sources: func() map[string]deleter.Content {
				return map[string]deleter.Content{
					"a": fake(fails(errBoom, wait), heldFor(0)), "b": fake(nil, heldFor(time.Second)), "c": fake(fails(deleter.ErrNotSupported, wait), heldFor(0)),
				}
			},
		},
		{
			name: "others panic and exit", want: time.Second,
			sources: func() map[string]deleter.Content {
				return map[string]deleter.Content{
					"a": fake(waits(panics), heldFor(0)), "b": fake(nil, heldFor(time.Second)), "c": fake(waits(panics), heldFor(0)),
				}
			},
		},
		{name: "all fail", is: errBoom, sources: func() map[string]deleter.Content {
			return map[string]deleter.Content{"a": fake(fails(errBoom, wait), heldFor(0)), "b": plain{fake(nil, heldFor(0))}}
		}},
		{name: "all panic", is: errBoom, sources: func() map[string]deleter.Content {
			return map[string]deleter.Content{"a": fake(waits(panics), heldFor(0))}
		}},
		{name: "none can wait", is: deleter.ErrNotSupported, sources: func() map[string]deleter.Content {
			return map[string]deleter.Content{"a": plain{fake(nil, heldFor(0))}, "b": fake(fails(deleter.ErrNotSupported, wait), heldFor(0))}
		}},
		{name: "nothing remains", is: deleter.ErrNotSupported, sources: func() map[string]deleter.Content { return map[string]deleter.Content{"a": fake(nil)} }},
		{name: "nothing goes", want: time.Hour, is: context.DeadlineExceeded, sources: func() map[string]deleter.Content { return map[string]deleter.Content{"a": fake(nil, heldFor(0))} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sources []deleter.Source
				for name, content := range tt.sources() {
					sources = append(sources, source(name, content))
				}
				d := compose(t, nil, sources...)
				report, err := d.Delete(t.Context(), target(), deleter.Report{})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				err = d.Wait(ctx, target(), report)
				require.Equal(t, tt.want, time.Since(start))
				if tt.is == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, tt.is)
				}
			})
		})
	}
}

// waits makes only Wait fail.
func waits(fault func(context.Context, contenttest.Call) error) *contenttest.FakeOptions {
	return &contenttest.FakeOptions{Fault: func(ctx context.Context, c contenttest.Call) error {
		if c.Op == wait {
			return fault(ctx, c)
		}
		return nil
	}}
}

// A source that cannot wait is not called twice. An object that disappeared between the pass
// and the call ends the wait at once.
func TestWaitNoticesEarlierRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := fake(nil, contenttest.Object{Name: "held", Finalizers: []string{"example.com/hold"}})
		refuses := fake(fails(deleter.ErrNotSupported, wait), heldFor(0))
		d := compose(t, nil, source("gone", gone), source("refuses", refuses))
		report, err := d.Delete(t.Context(), target(), deleter.Report{})
		require.NoError(t, err)
		first := make(chan error, 1)
		go func() { first <- d.Wait(t.Context(), target(), report.Compact()) }()
		synctest.Wait() // the refusal is there, nothing has gone
		gone.Release(target(), "held")
		require.NoError(t, <-first)
		for range 2 {
			require.NoError(t, d.Wait(t.Context(), target(), report.Compact()))
		}
		require.Equal(t, 1, refuses.Calls(wait))
		require.Equal(t, 3, gone.Calls(wait))
	})
}

// A wait for types that were discovered finds them again without a discovery.
func TestWaitAfterDiscovery(t *testing.T) {
	calls := 0
	f := fake(nil, heldFor(0))
	d, err := deleter.Discovering(func(context.Context) ([]deleter.Source, error) {
		calls++
		return []deleter.Source{source("pods", f)}, nil
	}, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	f.Release(target(), "held")
	require.NoError(t, d.Wait(t.Context(), target(), report))
	require.Equal(t, 1, calls)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := compose(t, nil, source("pods", fake(nil, heldFor(0))), source("jobs", fake(nil, heldFor(0))))
		report, err := d.Delete(t.Context(), target(), deleter.Report{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		answer := make(chan error)
		go func() { answer <- d.Wait(ctx, target(), report) }()
		synctest.Wait()
		stopped := errors.New("stopped")
		cancel(stopped)
		require.ErrorIs(t, <-answer, stopped)
	})
}

// An object that disappears during the listing of later pages ends the wait too.
func TestWaitNoticesRemovalsBetweenPages(t *testing.T) {
	var f *contenttest.Fake
	f = contenttest.NewFake(&contenttest.FakeOptions{Fault: func(_ context.Context, c contenttest.Call) error {
		if c.Op == list && f.Calls(list) == 2 {
			f.Release(target(), "a")
		}
		return nil
	}})
	for _, name := range []string{"a", "b", "c"} {
		f.Put(target(), contenttest.Object{Name: name, Finalizers: []string{"example.com/hold"}})
	}
	d := compose(t, &deleter.Options{PageSize: 1}, source("pods", f))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	require.Equal(t, 3, report.Remaining(), "a went after its page was read")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, d.Wait(ctx, target(), report))
}

// mute cannot wait in one namespace.
type mute struct{ *contenttest.Fake }

func (mute) Wait(context.Context, deleter.Target, string) error {
	return fmt.Errorf("405: %w", deleter.ErrNotSupportedHere)
}

// A wait that is refused in one namespace is no failure, and is not remembered.
func TestWaitNotSupportedHere(t *testing.T) {
	content := mute{contenttest.NewFake(nil)}
	content.Put(target(), contenttest.Object{Name: "a", Finalizers: []string{"example.com/hold"}})
	d := compose(t, nil, source("pods", content))
	report, err := d.Delete(t.Context(), target(), deleter.Report{})
	require.NoError(t, err)
	for range 2 {
		require.ErrorIs(t, d.Wait(t.Context(), target(), report), deleter.ErrNotSupported)
	}
}

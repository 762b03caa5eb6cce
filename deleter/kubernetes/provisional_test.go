package kubernetes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
)

const (
	stock              = "v1.36.0"
	withClientDefaults = "v1.36.0+nslifecycle"
)

// The time for which an empty namespace is checked again, and the number of requests for the
// version of the server.
func TestProvisionalTime(t *testing.T) {
	for _, tt := range []struct {
		name    string
		version string
		wait    time.Duration
		want    time.Duration
		asked   int
	}{
		{"a stock server", stock, 0, 5 * time.Second, 1},
		{"another build", "v1.36.0+k3s1", 0, 5 * time.Second, 1},
		{"one that says nothing", "", 0, 5 * time.Second, 1},
		{"one of this library", withClientDefaults, 0, 0, 1},
		{"one of this library, built by another", "v1.36.0+acme.nslifecycle", 0, 0, 1},
		{"the host's wait", stock, time.Second, time.Second, 0},
		{"the host's wait, whatever the server", withClientDefaults, time.Second, time.Second, 0},
		{"no wait", stock, -1, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, tt.version, kubernetes.Options{Wait: tt.wait})
				for _, name := range []string{"n", "m"} {
					w.create(t, name)
					w.put(t, name, ofConfigs, simulated.Object{Name: "a"})
					w.delete(t, name)
					if tt.want == 0 {
						w.removed(t, name, deleter.Report{})
						continue
					}
					report := w.waits(t, name, deleter.Report{})
					require.Zero(t, w.Objects(name), "content is deleted at once in any case")
					require.Equal(t, tt.want, report.Provisional)
					time.Sleep(tt.want - time.Millisecond)
					report = w.waits(t, name, report)
					require.Equal(t, time.Millisecond, report.Provisional)
					time.Sleep(report.Provisional)
					w.removed(t, name, report)
				}
				require.Equal(t, tt.asked, w.Requests(simulated.Version))
			})
		})
	}
}

// A server that does not report a version is treated as one that needs the wait, and asked again.
func TestWaitWithoutAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withClientDefaults, kubernetes.Options{})
		w.requests = func(_ context.Context, r simulated.Request) error {
			if r.Verb == simulated.Version {
				return errors.New("down")
			}
			return nil
		}
		w.create(t, "n")
		w.delete(t, "n")
		report := w.waits(t, "n", deleter.Report{})
		require.Equal(t, 5*time.Second, report.Provisional)
		report = w.waits(t, "n", report)
		w.set(func() { w.requests = nil })
		// The discovery beside this pass finds out; the next pass knows it.
		report = w.waits(t, "n", report)
		w.removed(t, "n", report)
		require.Equal(t, 3, w.Requests(simulated.Version))
	})
}

// A server that does not answer the question for its version delays passes by no more than the
// answer could save. Content that arrives after the read of the slow discovery is still found.
func TestR7_SlowDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{})
		w.hidden[widgets] = true
		w.requests = func(ctx context.Context, r simulated.Request) error {
			if r.Verb == simulated.Version {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		w.create(t, "n")
		w.delete(t, "n")
		go func() {
			time.Sleep(time.Second)
			w.set(func() { w.hidden[widgets] = false })
			w.put(t, "n", ofWidgets, simulated.Object{Name: "late", Finalizers: []string{"example.com/f"}})
		}()
		began := time.Now()
		report := w.waits(t, "n", deleter.Report{})
		require.Equal(t, 5*time.Second, time.Since(began))
		require.Equal(t, time.Millisecond, report.Provisional, "the pass began after the wait, its discovery did not")
		report = w.waits(t, "n", report)
		require.Equal(t, 1, report.Remaining())
		w.Release("n", ofWidgets, "late")
		w.removed(t, "n", report)
	})
}

// Content that the server admits because of a stale cache, within the wait, is deleted.
func TestR7_LateContent(t *testing.T) {
	for name, opts := range map[string]kubernetes.Options{"wait": {}, "quiet twice": {QuietTwice: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, stock, opts)
				w.create(t, "n")
				w.delete(t, "n")
				report := w.waits(t, "n", deleter.Report{})
				w.put(t, "n", ofConfigs, simulated.Object{Name: "late"})
				time.Sleep(report.Provisional)
				held := "later"
				w.put(t, "n", ofConfigs, simulated.Object{Name: held, Finalizers: []string{"example.com/f"}})
				report = w.waits(t, "n", report)
				require.Equal(t, 1, w.Objects("n"))
				require.Zero(t, report.Provisional, "the wait is not over")
				w.Release("n", ofConfigs, held)
				if opts.QuietTwice {
					report = w.waits(t, "n", report)
					require.Equal(t, 50*time.Millisecond, report.Provisional, "the first empty check after that")
				}
				w.removed(t, "n", report)
			})
		})
	}
}

// The wait counts from the first read of this process that showed the namespace terminating. A new
// process starts the wait again.
func TestWaitBeginsWithTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{})
		w.create(t, "n")
		w.delete(t, "n")
		_, err := w.cluster.Namespaces().Get(t.Context(), "n")
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		report := w.waits(t, "n", deleter.Report{})
		require.Equal(t, 3*time.Second, report.Provisional)
		time.Sleep(report.Provisional)
		w.restart(t, kubernetes.Options{})
		report = w.waits(t, "n", report)
		require.Equal(t, 5*time.Second, report.Provisional)
		time.Sleep(report.Provisional)
		w.removed(t, "n", report)
	})
}

// A second check at later resource versions ends the wait. If versions do not move, it does not.
func TestQuietTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{QuietTwice: true})
		w.create(t, "n")
		w.delete(t, "n")
		report := w.waits(t, "n", deleter.Report{}) // writes the status, so that versions move
		require.Equal(t, 50*time.Millisecond, report.Provisional)
		w.removed(t, "n", report)
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{QuietTwice: true})
		w.create(t, "n")
		w.delete(t, "n")
		ns, err := w.cluster.Namespaces().Get(t.Context(), "n")
		require.NoError(t, err)
		target := deleter.Target{Namespace: ns.Name, UID: ns.UID, DeletedAt: ns.DeletionTimestamp.Time}
		var report deleter.Report
		for _, want := range []time.Duration{50 * time.Millisecond, 4950 * time.Millisecond, 4900 * time.Millisecond} {
			report, err = w.cluster.Deleter().Delete(t.Context(), target, report.Compact())
			require.NoError(t, err)
			require.Equal(t, want, report.Provisional)
			time.Sleep(50 * time.Millisecond)
		}
		w.create(t, "another") // now versions move
		report, err = w.cluster.Deleter().Delete(t.Context(), target, report.Compact())
		require.NoError(t, err)
		require.True(t, report.Empty())
	})
}

// Two checks without the report of the first are not two in a row.
func TestQuietTwiceNeedsTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{QuietTwice: true})
		w.create(t, "n")
		w.delete(t, "n")
		for range 3 {
			w.waits(t, "n", deleter.Report{})
			w.create(t, "moves"+time.Now().String())
			time.Sleep(time.Second)
		}
	})
}

// A check that was not empty voids the one before, for callers without its report too.
func TestQuietTwiceInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{QuietTwice: true})
		w.create(t, "n")
		w.delete(t, "n")
		first := w.waits(t, "n", deleter.Report{})
		w.put(t, "n", ofConfigs, simulated.Object{Name: "late", Finalizers: []string{"example.com/f"}})
		require.Equal(t, 1, w.waits(t, "n", first).Remaining())
		w.Release("n", ofConfigs, "late")
		again := w.waits(t, "n", first)
		w.create(t, "moves")
		w.removed(t, "n", again)
	})
}

// The second half of a pass, over other types than the first half, is no second check.
func TestQuietTwiceIsTwoPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{QuietTwice: true})
		w.create(t, "warm")
		w.delete(t, "warm")
		w.waits(t, "warm", deleter.Report{})
		w.create(t, "n")
		w.delete(t, "n")
		w.set(func() {
			w.hidden[widgets] = true
			w.requests = func(_ context.Context, r simulated.Request) error {
				if r.Verb == simulated.List {
					w.Put("warm", ofConfigs, simulated.Object{Name: "moves"})
				}
				return nil
			}
		})
		report := w.waits(t, "n", deleter.Report{})
		require.Equal(t, 50*time.Millisecond, report.Provisional)
		w.removed(t, "n", report)
	})
}

// A pass that began before the end of the wait and ends after it is not final.
func TestR7_PassAcrossTheEndOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{})
		w.create(t, "n")
		w.delete(t, "n")
		report := w.waits(t, "n", deleter.Report{})
		time.Sleep(report.Provisional - time.Millisecond)
		w.set(func() {
			w.requests = func(_ context.Context, r simulated.Request) error {
				if r.Verb == simulated.List {
					time.Sleep(time.Second)
				}
				return nil
			}
		})
		report = w.waits(t, "n", report)
		require.Equal(t, time.Millisecond, report.Provisional)
		w.removed(t, "n", report)
	})
}

// Types that were observed empty are listed again, not deleted again.
func TestSecondCheckDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, stock, kubernetes.Options{})
		w.create(t, "n")
		w.delete(t, "n")
		report := w.waits(t, "n", deleter.Report{})
		require.Empty(t, report.Results, "the report is compact")
		time.Sleep(report.Provisional)
		w.ResetRequests()
		w.removed(t, "n", report)
		require.Equal(t, 3, w.Requests(simulated.List))
		require.Zero(t, w.Requests(simulated.DeleteCollection))
	})
}

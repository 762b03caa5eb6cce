package kubernetes_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes/internal/simulated"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// spent is the number of requests of each kind.
type spent struct{ Get, Discover, DeleteCollection, List, UpdateStatus, Finalize, Other int }

func spentBy(a *simulated.API) spent {
	s := spent{
		Get: a.Requests(simulated.Get), Discover: a.Requests(simulated.Discover),
		DeleteCollection: a.Requests(simulated.DeleteCollection), List: a.Requests(simulated.List),
		UpdateStatus: a.Requests(simulated.UpdateStatus), Finalize: a.Requests(simulated.Finalize),
	}
	s.Other = a.Requests() - s.Get - s.Discover - s.DeleteCollection - s.List - s.UpdateStatus - s.Finalize
	return s
}

// expect runs a pass and checks its result and its requests.
func (s *simulation) expect(t *testing.T, name string, previous deleter.Report, outcome pass.Outcome, want spent) deleter.Report {
	t.Helper()
	s.api.ResetRequests()
	result, _, err := s.pass(t, name, previous)
	require.NoError(t, err)
	require.Equal(t, outcome, result.Outcome)
	require.Empty(t, cmp.Diff(want, spentBy(s.api)))
	return result.Report
}

// Requests of one pass over 60 types, from the first on.
func TestRequestsOfAPass(t *testing.T) {
	s := simulate(t, 60, simulated.Options{}, kubernetes.Options{})
	full := spent{Get: 1, Discover: 2, DeleteCollection: 60, List: 60, Finalize: 1}
	for _, name := range []string{"first", "second", "third"} {
		s.create(t, name, 5)
		s.delete(t, name)
		s.expect(t, name, deleter.Report{}, pass.Removed, full)
	}
	for _, name := range []string{"empty", "again"} {
		s.create(t, name, 0)
		s.delete(t, name)
		s.expect(t, name, deleter.Report{}, pass.Removed, full)
	}
}

// A later pass does not list types that are known to be empty, does not repeat deletions in
// progress, and does not repeat a recent discovery.
func TestRequestsOfLaterPasses(t *testing.T) {
	s := simulate(t, 60, simulated.Options{}, kubernetes.Options{})
	s.create(t, "n", 5)
	require.True(t, s.api.Put("n", 30, simulated.Object{Name: "held", Finalizers: []string{"example.com/f"}}))
	s.delete(t, "n")
	report := s.expect(t, "n", deleter.Report{}, pass.Waiting,
		spent{Get: 1, Discover: 2, DeleteCollection: 60, List: 60, UpdateStatus: 1})
	for range 3 {
		report = s.expect(t, "n", report.Compact(), pass.Waiting, spent{Get: 1, List: 1})
	}
	s.api.Release("n", 30, "held")
	s.expect(t, "n", report, pass.Removed, spent{Get: 1, List: 1, Finalize: 1})
}

// In virtual time a pass takes as long as six sequential requests: the read of the namespace, a
// deletion and a listing of the pods, the same for all other types, and the write that removes it.
// The discovery for a further namespace runs concurrently.
func TestPassTakesSixRequestsTime(t *testing.T) {
	for _, types := range []int{2, 60, 200, 256} {
		for _, each := range []int{0, 5} {
			t.Run(fmt.Sprintf("types=%d/objects=%d", types, each), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := simulate(t, types, simulated.Options{Latency: 20 * time.Millisecond}, kubernetes.Options{})
					for i, requests := range []time.Duration{8, 6, 6} { // the first pass waits for its discovery
						name := fmt.Sprint("n-", i)
						s.create(t, name, each)
						s.delete(t, name)
						began := time.Now()
						s.expect(t, name, deleter.Report{}, pass.Removed,
							spent{Get: 1, Discover: 2, DeleteCollection: types, List: types, Finalize: 1})
						require.Equal(t, requests*20*time.Millisecond, time.Since(began))
					}
				})
			})
		}
	}
}

// Without an order between types a pass takes four, because no type waits for the pods.
func TestPassWithoutOrderTakesFourRequestsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, 200, simulated.Options{Latency: 20 * time.Millisecond},
			kubernetes.Options{After: func(namespace.ResourceType) []namespace.ResourceType { return nil }})
		for i, requests := range []time.Duration{6, 4} {
			name := fmt.Sprint("n-", i)
			s.create(t, name, 5)
			s.delete(t, name)
			began := time.Now()
			s.expect(t, name, deleter.Report{}, pass.Removed,
				spent{Get: 1, Discover: 2, DeleteCollection: 200, List: 200, Finalize: 1})
			require.Equal(t, requests*20*time.Millisecond, time.Since(began))
		}
	})
}

// While the server may still admit creates, each pass lists empty types again with one request,
// and discovers types again.
func TestRequestsWhileProvisional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, 60, simulated.Options{GitVersion: "v1.36.0"}, kubernetes.Options{Wait: 5 * time.Second})
		s.create(t, "n", 5)
		s.delete(t, "n")
		report := s.expect(t, "n", deleter.Report{}, pass.Waiting,
			spent{Get: 1, Discover: 2, DeleteCollection: 60, List: 60, UpdateStatus: 1})
		require.Equal(t, 5*time.Second, report.Provisional)
		require.True(t, s.api.Put("n", 7, simulated.Object{Name: "late"}))
		time.Sleep(time.Second)
		report = s.expect(t, "n", report, pass.Waiting, spent{Get: 1, Discover: 2, DeleteCollection: 1, List: 61})
		time.Sleep(report.Provisional + time.Millisecond)
		s.expect(t, "n", report, pass.Removed, spent{Get: 1, Discover: 2, List: 60, Finalize: 1})
	})
}

// A pass deletes the collection of a type at most once and lists it once, so at most one listing
// follows its deletion.
func TestOneDeletionAndOneListingPerType(t *testing.T) {
	for name, each := range map[string]int{"empty": 0, "one": 1, "five": 5, "a page": 499} {
		t.Run(name, func(t *testing.T) {
			s := simulate(t, 20, simulated.Options{}, kubernetes.Options{})
			for i := range 3 {
				n := string(rune('a' + i))
				s.create(t, n, each)
				s.delete(t, n)
				s.api.ResetRequests()
				result, _, err := s.pass(t, n, deleter.Report{})
				require.NoError(t, err)
				require.Equal(t, pass.Removed, result.Outcome)
				for _, k := range simulated.Types(20) {
					r := namespace.ResourceType{Group: k.Group, Name: k.Resource}
					require.Equal(t, 1, s.api.RequestsFor(r, simulated.List), r)
					require.LessOrEqual(t, s.api.RequestsFor(r, simulated.DeleteCollection), 1, r)
					require.LessOrEqual(t, s.api.RequestsFor(r), 2, r)
				}
			}
		})
	}
}

// In its first minute, a namespace with a type that fails permanently takes a tenth of the 1,695
// requests of the stock controller.
func TestRequestsOfAStuckNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 169
		s := simulate(t, 60, failing(5*time.Millisecond), kubernetes.Options{})
		stop := s.run(t, controller.Options{})
		s.create(t, "sick", 5)
		synctest.Wait()
		s.api.ResetRequests()
		s.delete(t, "sick")
		time.Sleep(time.Minute)
		stop()
		took := spentBy(s.api)
		t.Logf("requests: %+v", took)
		require.LessOrEqual(t, s.api.Requests(), bound)
		require.Greater(t, s.api.Requests(), 125, "the first pass alone")
		require.Equal(t, 5, s.api.Objects("sick"), "every type except the failing one is empty")
	})
}

// Time from DELETE to removal by the controller, with 60 types and 5 ms per request, in virtual
// time: with the wait for late creates, and with a second check instead of the wait.
func TestTimeToRemoval(t *testing.T) {
	// The other request is the DELETE.
	once := spent{Get: 1, Discover: 2, DeleteCollection: 60, List: 60, Finalize: 1, Other: 1}
	twice := spent{Get: 2, Discover: 4, DeleteCollection: 60, List: 120, UpdateStatus: 1, Finalize: 1, Other: 1}
	for _, c := range []struct {
		name    string
		opts    kubernetes.Options
		version string
		took    time.Duration
		want    spent
	}{
		{"no wait", kubernetes.Options{Wait: -1}, "v1.36.0", 30 * time.Millisecond, once},
		{"a server of this library", kubernetes.Options{}, "v1.36.0+nslifecycle", 30 * time.Millisecond, once},
		{"any other server", kubernetes.Options{}, "v1.36.0", 5*time.Second + 25*time.Millisecond, twice},
		{"quiet twice", kubernetes.Options{QuietTwice: true}, "v1.36.0", 100 * time.Millisecond, twice},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := simulate(t, 60, simulated.Options{Latency: 5 * time.Millisecond, GitVersion: c.version}, c.opts)
				gone := make(chan namespace.Ref)
				s.run(t, controller.Options{Hooks: []controller.Hooks{{Removed: func(ref namespace.Ref) { gone <- ref }}}})
				for _, name := range []string{"first", "second"} {
					s.create(t, name, 5)
					synctest.Wait()
					s.api.ResetRequests()
					s.delete(t, name)
					began := time.Now()
					<-gone
					if name == "second" {
						require.Equal(t, c.took, time.Since(began))
						require.Empty(t, cmp.Diff(c.want, spentBy(s.api)))
					}
				}
			})
		})
	}
}

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// leases is an API server with one lease, as an http.RoundTripper: it works in virtual time.
type leases struct {
	mu      sync.Mutex
	lease   *coordination.Lease
	writes  []string  // holders written by the agent
	renewed time.Time // time of the agent's last renewal

	// before and after run around each request, with the holder that it writes (nil for a
	// GET). Their error fails the request.
	before, after func(r *http.Request, holder *string) error
}

func (l *leases) RoundTrip(r *http.Request) (*http.Response, error) {
	var in coordination.Lease
	if r.Method != http.MethodGet {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		if err := json.Unmarshal(text, &in); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	before, after := l.before, l.after
	l.mu.Unlock()
	if before != nil {
		if err := before(r, in.Spec.HolderIdentity); err != nil {
			return nil, err
		}
	}
	code, answer := l.serve(r.Method, &in)
	if after != nil {
		if err := after(r, in.Spec.HolderIdentity); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(answer)
	return &http.Response{
		StatusCode: code,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(text)),
		Request:    r,
	}, err
}

func (l *leases) serve(method string, in *coordination.Lease) (code int, answer any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case method == http.MethodGet && l.lease == nil:
		return status(http.StatusNotFound, metav1.StatusReasonNotFound)
	case method == http.MethodPut && in.ResourceVersion != l.lease.ResourceVersion:
		return status(http.StatusConflict, metav1.StatusReasonConflict)
	case method != http.MethodGet:
		l.put(in)
		l.writes = append(l.writes, *in.Spec.HolderIdentity)
		if *in.Spec.HolderIdentity != "" {
			l.renewed = time.Now()
		}
	}
	return http.StatusOK, l.lease.DeepCopy()
}

func (l *leases) put(in *coordination.Lease) {
	version := 0
	if l.lease != nil {
		version, _ = strconv.Atoi(l.lease.ResourceVersion)
	}
	l.lease = in.DeepCopy()
	l.lease.ResourceVersion = strconv.Itoa(version + 1)
	l.lease.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
}

// take assigns the lease to another replica.
func (l *leases) take(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease := l.lease.DeepCopy()
	now := metav1.NewMicroTime(time.Now())
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &now
	l.put(lease)
}

func (l *leases) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.lease.Spec.HolderIdentity
}

func (l *leases) lastRenewed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

func (l *leases) meet(before, after func(*http.Request, *string) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

func status(code int, reason metav1.StatusReason) (int, any) {
	return code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Message: string(reason), Code: int32(code),
	}
}

// working is work that takes a second to stop.
type working struct {
	controller.Namespaces
	now   atomic.Bool
	began chan struct{}
	ended chan time.Time // receives when the work was asked to stop
}

func (w *working) Terminating(ctx context.Context, _ string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		w.now.Store(true)
		w.began <- struct{}{}
		<-ctx.Done()
		asked := time.Now()
		<-time.After(time.Second)
		w.now.Store(false)
		w.ended <- asked
		yield(namespace.Event{}, context.Cause(ctx))
	}
}

// onOutput is a writer that calls a function.
type onOutput func(string)

func (h onOutput) Write(text []byte) (int, error) {
	h(string(text))
	return len(text), nil
}

// candidate is a replica with a lease of 15 seconds.
type candidate struct {
	*Agent
	*working
	*leases
	stop func()
}

// newCandidate returns a candidate that leads.
func newCandidate(t *testing.T, hear func(c *candidate, text string)) *candidate {
	t.Helper()
	c := &candidate{leases: &leases{}, working: &working{began: make(chan struct{}, 9), ended: make(chan time.Time, 9)}}
	c.Agent = newBareAgent(t, &rest.Config{Host: "http://leases", Transport: c.leases}, onOutput(func(text string) { hear(c, text) }))
	var err error
	nothing := struct{ deleter.Deleter }{}
	c.Agent.controller, err = controller.New(c.working, nothing, namespace.Party{Finalizer: finalizer.Kubernetes}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.New(nil)))
	ended := make(chan error, 1)
	go func() { ended <- c.elect(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	<-c.began
	return c
}

func newBareAgent(t *testing.T, connection *rest.Config, w io.Writer) *Agent {
	t.Helper()
	connection.ContentType = "application/json"
	a := &Agent{connection: connection, config: Config{Output: w, Lease: &Lease{Namespace: "kube-system", Name: "trial", Identity: "first", Duration: 15 * time.Second}}}
	a.progress = newProgress(a.report)
	var err error
	a.metrics, err = newMetrics(finalizer.Kubernetes, a.progress)
	require.NoError(t, err)
	return a
}

func quiet(*candidate, string) {}

var errDown = errors.New("the server is down")

// However renewals fail, the work ends before another replica may take the lease.
func TestWorkEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	silent := func(r *http.Request, _ *string) error {
		<-r.Context().Done()
		return r.Context().Err()
	}
	for _, tt := range []struct {
		name          string
		before, after func(*http.Request, *string) error
	}{
		{"refused", func(*http.Request, *string) error { return errDown }, nil},
		{"silent", silent, nil},
		{"silent to writes, and slow to reads", func(r *http.Request, holder *string) error {
			if holder != nil {
				return silent(r, holder)
			}
			<-time.After(4 * time.Second)
			return nil
		}, nil},
		{"late answers", nil, func(*http.Request, *string) error {
			<-time.After(4900 * time.Millisecond)
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCandidate(t, quiet)
				c.meet(tt.before, tt.after)
				if tt.before == nil { // the last renewal is one with a late response
					<-time.After(4 * time.Second)
					c.meet(func(*http.Request, *string) error { return errDown }, nil)
				}
				<-c.ended
				require.Less(t, time.Since(c.lastRenewed()), 15*time.Second)
				c.stop()
			})
		})
	}
}

// A leader that stops, or cannot renew its lease, releases the lease after its work has ended.
func TestLeaseReleasedAfterWork(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{true, false} {
		t.Run("leaves "+strconv.FormatBool(leaves), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCandidate(t, quiet)
				released := make(chan bool, 9)
				c.meet(func(_ *http.Request, holder *string) error {
					switch {
					case holder == nil:
					case *holder == "":
						released <- c.now.Load()
					case !leaves:
						return errDown
					}
					return nil
				}, nil)
				if leaves {
					c.stop()
				}
				require.False(t, <-released, "still working")
				synctest.Wait()
				require.Empty(t, c.holder())
				require.EqualValues(t, 1, *c.lease.Spec.LeaseDurationSeconds)
				c.stop()
			})
		})
	}
}

// A renewal that was canceled may reach the server after the read of the release. The lease is
// released all the same.
func TestLeaseReleasedAfterALateRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, quiet)
		var late sync.Once
		c.meet(func(_ *http.Request, holder *string) error {
			if holder != nil && *holder == "" {
				late.Do(func() { c.take("first") })
			}
			return nil
		}, nil)
		c.stop()
		require.Empty(t, c.holder())
	})
}

// A replica that cannot renew never overwrites the lease of another one, whenever that takes it.
func TestLeaseOfAnotherIsKept(t *testing.T) {
	t.Parallel()
	for tenths := range 150 {
		synctest.Test(t, func(t *testing.T) {
			c := newCandidate(t, quiet)
			begin := time.Now()
			var taken bool
			c.meet(func(_ *http.Request, holder *string) error {
				switch {
				case taken:
				case holder == nil && time.Since(begin) > time.Duration(tenths)*time.Second/10:
					taken = true
					c.take("second")
				default:
					return errDown
				}
				return nil
			}, nil)
			<-c.ended
			c.stop()
			require.NotContains(t, c.writes, "", "taken after %d tenths of a second", tenths)
		})
	}
}

// A lease that another replica takes between read and release stays with that replica.
func TestLeaseTakenBeforeRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, func(_ *candidate, text string) { require.NotContains(t, text, "release") })
		c.meet(func(_ *http.Request, holder *string) error {
			if holder != nil && *holder == "" {
				c.take("second")
			}
			return nil
		}, nil)
		c.stop()
		require.Equal(t, "second", c.holder())
	})
}

// A leader that sees another holder stops at once, and then stands by.
func TestAnotherLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		standby := make(chan bool, 9)
		c := newCandidate(t, func(c *candidate, text string) {
			if strings.HasPrefix(text, "standing by: second leads") {
				standby <- c.now.Load()
			}
		})
		seen := make(chan time.Time, 99)
		ready := make(chan string, 99)
		c.meet(nil, func(_ *http.Request, holder *string) error {
			if holder == nil && c.now.Load() {
				seen <- time.Now()
			}
			if c.now.Load() {
				ready <- c.ready.get()
			}
			return nil
		})
		c.take("second")
		require.Equal(t, <-seen, <-c.ended)
		require.False(t, <-standby, "still working")
		synctest.Wait()
		require.Empty(t, c.ready.get())
		require.NotContains(t, c.writes, "")
		close(ready)
		for reason := range ready {
			require.NotEmpty(t, reason)
		}
		c.stop()
		require.Equal(t, "second", c.holder())
	})
}

// The lease has its own connection. By default client-go shares one HTTP/2 connection between all
// clients of the same configuration.
func TestConnectionOfTheLease(t *testing.T) {
	t.Parallel()
	type request struct{ path, from string }
	requests := make(chan request, 99)
	l := &leases{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- request{r.URL.Path, r.RemoteAddr}
		answer, err := l.RoundTrip(r)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body) // the client went away
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	a := newBareAgent(t, &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, io.Discard)
	work, err := core.NewForConfig(a.connection)
	require.NoError(t, err)
	_, _ = work.Namespaces().Get(t.Context(), "a", metav1.GetOptions{}) // not found
	first := <-requests
	require.NotContains(t, first.path, "lease")

	w := &working{began: make(chan struct{}, 9), ended: make(chan time.Time, 9)}
	a.controller, err = controller.New(w, struct{ deleter.Deleter }{}, namespace.Party{Finalizer: finalizer.Kubernetes}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.New(nil)))
	ended := make(chan error, 1)
	go func() { ended <- a.elect(ctx) }()
	<-w.began
	cancel()
	require.NoError(t, <-ended)
	server.Close() // after the last request
	close(requests)
	require.NotEmpty(t, requests)
	for r := range requests {
		require.Contains(t, r.path, "/leases")
		require.NotEqual(t, first.from, r.from)
	}
}

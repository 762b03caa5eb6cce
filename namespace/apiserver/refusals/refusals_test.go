package refusals_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/quota"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/refusals"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// env is a server with a recorder. The server refuses every request.
type env struct {
	*registry.Registry
	t        testing.TB
	recorder *refusals.Recorder
	events   *registry.Content
	server   *apiserver.Server
	dropped  []error
}

func newEnv(t testing.TB, o refusals.Options, admission ...registry.Admission) *env {
	t.Helper()
	s, err := memory.New(nil)
	require.NoError(t, err)
	list := []kinds.Kind{kinds.Events(), kinds.Secrets(), kinds.ResourceQuotas()}
	var types []registry.Type
	for _, k := range list {
		types = append(types, k.Type)
	}
	r, err := registry.New(s, &registry.Options{Types: types, Admission: admission})
	require.NoError(t, err)
	e := &env{Registry: r, t: t}
	o.Dropped = func(_ apiserver.Refusal, err error) { e.dropped = append(e.dropped, err) }
	e.recorder, err = refusals.New(r, &o)
	require.NoError(t, err)
	e.events, err = r.Content(namespace.ResourceType{Name: "events"})
	require.NoError(t, err)
	e.server, err = apiserver.New(r, list, &apiserver.Options{
		Authorizer: &authorization.Grants{},
		Authenticate: func(r *http.Request) (authorization.User, error) {
			return authorization.User{Name: r.Header.Get("User")}, nil
		},
		Hooks: apiserver.Hooks{Refused: e.recorder.Record},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.recorder.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, e.server.Close())
		require.NoError(t, r.Close())
		require.NoError(t, registrytest.Check(context.WithoutCancel(t.Context()), s, "registry"))
		require.NoError(t, s.Close())
	})
	return e
}

func (e *env) create(name string) {
	e.t.Helper()
	_, err := e.Create(e.t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: name}})
	require.NoError(e.t, err)
}

// refused sends a request, and fails the test unless the answer is 403.
func (e *env) refused(user, method, target string) {
	e.t.Helper()
	r := httptest.NewRequestWithContext(e.t.Context(), method, target, nil)
	r.Header.Set("User", user)
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, r)
	require.Equal(e.t, http.StatusForbidden, w.Code)
}

// recorded returns the events of a namespace as "count message".
func (e *env) recorded(ns string) []string {
	e.t.Helper()
	list, err := e.events.List(e.t.Context(), ns, registry.ListOptions{})
	require.NoError(e.t, err)
	var lines []string
	for _, o := range list.Items {
		var message string
		require.NoError(e.t, json.Unmarshal(o.Fields["message"], &message))
		lines = append(lines, string(o.Fields["count"])+" "+message)
	}
	return lines
}

func TestRefusalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, refusals.Options{})
		e.create("x")
		for i := range 3 {
			e.refused("alice", "GET", fmt.Sprintf("/api/v1/namespaces/x/secrets/s%d", i))
		}
		e.refused("bob", "DELETE", "/api/v1/namespaces/x")
		require.Empty(t, e.recorded("x"), "not in the way of requests")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.ElementsMatch(t, []string{
			`3 User "alice" cannot get resource "secrets" in API group "" in the namespace "x"`,
			`1 User "bob" cannot delete resource "namespaces" in API group "" in the namespace "x"`,
		}, e.recorded("x"))
		time.Sleep(time.Hour)
		e.refused("alice", "GET", "/api/v1/namespaces/x/secrets/other")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Contains(t, e.recorded("x"), `4 User "alice" cannot get resource "secrets" in API group "" in the namespace "x"`)
		require.Len(t, e.recorded("x"), 2)
		require.Empty(t, e.dropped)

		list, err := e.events.List(t.Context(), "x", registry.ListOptions{})
		require.NoError(t, err)
		for _, o := range list.Items {
			require.JSONEq(t, `"Warning"`, string(o.Fields["type"]))
			require.JSONEq(t, `"Forbidden"`, string(o.Fields["reason"]))
			require.JSONEq(t, `{"kind":"Namespace","apiVersion":"v1","name":"x","namespace":"x"}`, string(o.Fields["involvedObject"]))
			var first, last time.Time
			require.NoError(t, json.Unmarshal(o.Fields["firstTimestamp"], &first))
			require.NoError(t, json.Unmarshal(o.Fields["lastTimestamp"], &last))
			require.Equal(t, string(o.Fields["count"]) == "4", last.Sub(first) >= time.Hour)
		}
	})
}

// TestWhereNothingIsRecorded checks that refusals in terminating or missing namespaces, and
// refusals without a namespace, are not recorded.
func TestWhereNothingIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, refusals.Options{})
		e.create("x")
		e.refused("alice", "GET", "/api/v1/namespaces/x")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, e.recorded("x"), 1)
		_, err := e.Delete(t.Context(), "x", namespace.Preconditions{})
		require.NoError(t, err)
		for _, target := range []string{
			"/api/v1/namespaces/x", "/api/v1/namespaces/x/secrets", "/api/v1/namespaces/missing/secrets", "/api/v1/namespaces/NotAName/secrets",
			"/api/v1/namespaces", "/api/v1/secrets", "/version", "/api/v1/namespaces/%2E%2E/secrets",
		} {
			e.refused("alice", "GET", target)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{`1 User "alice" cannot get resource "namespaces" in API group "" in the namespace "x"`}, e.recorded(""))
		require.Empty(t, e.dropped)
		_, err = e.events.DeleteCollection(t.Context(), "x", none.Labels, none.Fields)
		require.NoError(t, err)
		_, err = e.Finalize(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "x"}, Spec: namespace.Spec{Finalizers: finalizer.Set{}}})
		require.NoError(t, err)
	})
}

var none registry.ListOptions

// TestBounds checks that memory, writes and events are bounded for any number of users.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, refusals.Options{Every: time.Second, Writes: 5, Waiting: 20, Slots: 8})
		e.create("x")
		for i := range 30 {
			e.refused(fmt.Sprint("user-", i), "GET", "/api/v1/namespaces/x/secrets")
		}
		require.Len(t, e.dropped, 10)
		require.ErrorIs(t, e.dropped[0], refusals.ErrDropped)
		e.refused("user-7", "GET", "/api/v1/namespaces/x/secrets")
		require.Len(t, e.dropped, 10, "it waits already")
		e.refused(strings.Repeat("u", 5000), "GET", "/api/v1/namespaces/x/secrets")
		require.Len(t, e.dropped, 11)
		before := e.version()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		require.Equal(t, before+5, e.version(), "one write for each event")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, before+20, e.version())
		require.LessOrEqual(t, len(e.recorded("x")), 8)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, before+20, e.version(), "nothing is written when nothing is refused")
	})
}

// TestOneUserCannotCrowdOutOthers checks that refusals of one user, for any number of made-up
// names, do not displace the refusals of another user.
func TestOneUserCannotCrowdOutOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, refusals.Options{})
		e.create("x")
		e.refused("alice", "GET", "/api/v1/namespaces/x/secrets/a")
		time.Sleep(3 * time.Second)
		for i := range 1500 {
			e.refused("mallory", "GET", fmt.Sprintf("/api/v1/namespaces/x/made-up-%d", i))
			e.refused("mallory", "GET", fmt.Sprintf("/apis/made-up-%d/v1/namespaces/x/secrets", i))
			e.refused("mallory", "GET", fmt.Sprintf("/api/v1/namespaces/x/secrets/a/made-up-%d", i))
			e.refused("mallory", "GET", fmt.Sprintf("/api/v1/namespaces/made-up-%d/secrets", i))
		}
		for _, resource := range []string{"secrets", "events"} {
			for _, method := range []string{"GET", "PUT", "POST", "PATCH", "DELETE"} {
				e.refused("mallory", method, "/api/v1/namespaces/x/"+resource)
				e.refused("mallory", method, "/api/v1/namespaces/x/"+resource+"/a")
				e.refused("mallory", method, "/api/v1/namespaces/x/"+resource+"/a/status")
			}
		}
		dropped := len(e.dropped)
		require.NotZero(t, dropped)
		e.refused("alice", "DELETE", "/api/v1/namespaces/x/secrets/a")
		require.Len(t, e.dropped, dropped, "there is room for others")
		time.Sleep(time.Hour)
		synctest.Wait()
		recorded := e.recorded("x")
		require.Contains(t, recorded, `1 User "alice" cannot get resource "secrets" in API group "" in the namespace "x"`)
		require.Contains(t, recorded, `1 User "alice" cannot delete resource "secrets" in API group "" in the namespace "x"`)
		require.LessOrEqual(t, len(recorded), 2+8)
	})
}

// TestWhatIsNotServed checks that all refusals of a user and a verb for unknown
// resources share one event.
func TestWhatIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, refusals.Options{PerUser: 1})
		e.create("x")
		for _, target := range []string{"widgets/a", "secrets/a/made-up", "gadgets/b/status"} {
			e.refused("alice", "DELETE", "/api/v1/namespaces/x/"+target)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{`3 User "alice" cannot delete resources that are not served in the namespace "x"`}, e.recorded("x"))
		e.refused("alice", "DELETE", "/api/v1/namespaces/x/secrets/a")
		require.Empty(t, e.dropped, "what was written makes room")
	})
}

func (e *env) version() int {
	e.t.Helper()
	list, err := e.List(e.t.Context(), registry.ListOptions{Limit: 1})
	require.NoError(e.t, err)
	var n int
	_, err = fmt.Sscan(list.ResourceVersion, &n)
	require.NoError(e.t, err)
	return n
}

// refusing is an admission plugin that refuses writes of content.
type refusing struct{ err error }

func (r refusing) Admit(_ context.Context, w *registry.Write) error {
	if w.Itself != nil {
		return nil
	}
	return r.err
}

// TestNoLoop checks that a refused event is reported to Dropped and is not recorded in turn.
func TestNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &namespace.Error{Kind: namespace.ErrForbidden, Message: "exceeded quota"}
		e := newEnv(t, refusals.Options{}, refusing{full})
		e.create("x")
		e.refused("alice", "GET", "/api/v1/namespaces/x/secrets")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, e.dropped, 1)
		require.ErrorIs(t, e.dropped[0], namespace.ErrForbidden)
		require.Empty(t, e.recorded("x"))
	})
}

// TestTwoRecorders checks that two recorders of the same event add up their counts.
func TestTwoRecorders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, refusals.Options{})
		e.create("x")
		other, err := refusals.New(e.Registry, nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancelCause(t.Context())
		ended := errors.New("ended")
		done := make(chan error, 1)
		go func() { done <- other.Run(ctx) }()
		for range 10 {
			for _, r := range []*refusals.Recorder{e.recorder, other} {
				r.Record(apiserver.Refusal{
					User:       authorization.User{Name: "alice"},
					Attributes: authorization.Attributes{Verb: "get", Resource: "secrets", Namespace: "x"},
				})
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{`20 User "alice" cannot get resource "secrets" in API group "" in the namespace "x"`}, e.recorded("x"))
		stop(ended)
		require.ErrorIs(t, <-done, ended)
	})
}

// racing is an admission plugin that calls quicker once, before the commit of a write.
type racing struct{ quicker func() }

func (r *racing) Admit(context.Context, *registry.Write) error {
	if quicker := r.quicker; quicker != nil {
		r.quicker = nil
		quicker()
	}
	return nil
}

// TestConcurrentWrites checks that a recorder that loses a race adds its count to the count of
// the concurrent write.
func TestConcurrentWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var race racing
		e := newEnv(t, refusals.Options{}, &race)
		e.create("x")
		other, err := refusals.New(e.Registry, nil)
		require.NoError(t, err)
		refusal := apiserver.Refusal{
			User:       authorization.User{Name: "alice"},
			Attributes: authorization.Attributes{Verb: "get", Resource: "secrets", Namespace: "x"},
		}
		for round := range 2 { // first the create of the event, then an update
			race.quicker = func() {
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
				defer stop()
				other.Record(refusal)
				require.ErrorIs(t, other.Run(ctx), context.DeadlineExceeded)
			}
			e.recorder.Record(refusal)
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, []string{fmt.Sprint(2*(round+1)) + ` User "alice" cannot get resource "secrets" in API group "" in the namespace "x"`}, e.recorded("x"))
		}
		require.Empty(t, e.dropped)
	})
}

func TestBadInput(t *testing.T) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	without, err := registry.New(s, nil)
	require.NoError(t, err)
	_, err = refusals.New(without, nil)
	require.ErrorIs(t, err, namespace.ErrNotFound)
	with, err := registry.New(s, &registry.Options{Types: []registry.Type{kinds.Events().Type}})
	require.NoError(t, err)
	for name, o := range map[string]refusals.Options{"Every": {Every: -1}, "Writes": {Writes: -1}, "Waiting": {Waiting: -1}, "PerUser": {PerUser: -1}, "Slots": {Slots: -1}} {
		_, err = refusals.New(with, &o)
		require.ErrorContains(t, err, name)
	}
	rec, err := refusals.New(with, nil)
	require.NoError(t, err)
	rec.Record(apiserver.Refusal{})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, rec.Run(ctx), context.Canceled)
}

// TestRefusalsAreNotCounted checks that recorded events do not use the quota on events, and are
// written even if the quota is exhausted.
func TestRefusalsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted, err := quota.New(quota.Rule{Resource: namespace.ResourceType{Name: "events"}, Uncounted: refusals.Options{Slots: 4}.Reserves})
		require.NoError(t, err)
		e := newEnv(t, refusals.Options{Slots: 4}, counted)
		_, err = e.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "x"}})
		require.NoError(t, err)
		quotas, err := e.Content(quota.Resource)
		require.NoError(t, err)
		_, err = quotas.Create(t.Context(), "x", registry.Object{
			Meta: namespace.Meta{Name: "q"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"hard":{"count/events":"1"}}`)},
		})
		require.NoError(t, err)
		for i := range 20 {
			r := httptest.NewRequest("GET", "/api/v1/namespaces/x/secrets", nil)
			r.Header.Set("User", fmt.Sprint("user", i))
			e.server.ServeHTTP(httptest.NewRecorder(), r)
		}
		time.Sleep(time.Minute)
		require.Empty(t, e.dropped)
		list, err := e.events.List(t.Context(), "x", registry.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 4)
		_, err = e.events.Create(t.Context(), "x", registry.Object{Meta: namespace.Meta{Name: "own"}})
		require.NoError(t, err, "the tenant's own")
		_, err = e.events.Create(t.Context(), "x", registry.Object{Meta: namespace.Meta{Name: "refused-4"}})
		require.ErrorContains(t, err, "exceeded quota: q, requested: count/events=1, used: count/events=1", "no name of the recorder's")
		for _, o := range list.Items {
			_, err := e.events.Delete(t.Context(), "x", o.Name, namespace.Preconditions{})
			require.NoError(t, err)
		}
		q, err := quotas.Get(t.Context(), "x", "q")
		require.NoError(t, err)
		require.Contains(t, string(q.Fields["status"]), `"used":{"count/events":"1"}`)
	})
}

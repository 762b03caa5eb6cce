package apiserver_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// byHeader takes the user from the header "User".
func byHeader(r *http.Request) (authorization.User, error) {
	return authorization.User{Name: r.Header.Get("User")}, nil
}

// TestFloodOfOneClient checks that excess writes of one client are answered 429 with
// Retry-After. Writes of another client, reads and health probes still succeed.
func TestFloodOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := newHoldingAdmission()
		s, err := memory.New(nil)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		e := newEnvOver(t, s, &apiserver.Options{Authenticate: byHeader, Limits: apiserver.Limits{Writes: 4, QueueTimeout: time.Second}}, hold)
		hold.let()
		e.namespace("x")
		hold.arm()
		create := func(user string, i int) answer {
			return e.do("POST", configmapsOfX, fmt.Sprintf(`{"metadata":{"name":"%s-%d"}}`, user, i), "User", user)
		}
		var mu sync.Mutex
		codes := map[string]map[int]int{"flood": {}, "other": {}}
		var running sync.WaitGroup
		send := func(user string, n int) {
			for i := range n {
				running.Go(func() {
					a := create(user, i)
					mu.Lock()
					defer mu.Unlock()
					codes[user][a.Code]++
					if a.Code == http.StatusTooManyRequests {
						require.Equal(t, "1", a.Header.Get("Retry-After"))
						a.status(http.StatusTooManyRequests, `{"reason":"TooManyRequests","message":"Too many requests, please try again later.","details":{"retryAfterSeconds":1}}`)
					}
				})
			}
			synctest.Wait()
		}
		send("flood", 20)
		require.Equal(t, map[int]int{429: 14}, codes["flood"], "two are served, four wait")
		send("other", 2)
		require.Empty(t, codes["other"])
		e.must(http.StatusOK, "GET", configmapsOfX, "", "User", "flood")
		e.must(http.StatusOK, "GET", "/healthz", "", "User", "flood")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, map[int]int{429: 18}, codes["flood"])
		hold.let()
		running.Wait()
		require.Equal(t, map[int]int{429: 18, 201: 2}, codes["flood"])
		require.Equal(t, map[int]int{201: 2}, codes["other"])
	})
}

// holdingAuthorizer allows every request. It delays requests for path until open is closed.
type holdingAuthorizer struct {
	path string
	open chan struct{}
}

func (h holdingAuthorizer) Authorize(ctx context.Context, a authorization.Attributes) (authorization.Decision, error) {
	if a.Path == h.path {
		select {
		case <-h.open:
		case <-ctx.Done():
			return authorization.Decision{}, context.Cause(ctx)
		}
	}
	return authorization.Decision{Allowed: true}, nil
}

// TestHealthIsExempt checks that health probes succeed at once while all read slots are in use,
// and that an open watch does not occupy a read slot.
func TestHealthIsExempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := holdingAuthorizer{"/api/v1/namespaces/x", make(chan struct{})}
		w := newWire(t, &apiserver.Options{Authorizer: hold, Limits: apiserver.Limits{Reads: 1}})
		w.namespace("x")
		x := w.watch(configmapsOfX + "?watch=true")
		code := make(chan int, 1)
		go func() { code <- w.do("GET", hold.path, "").Code }()
		synctest.Wait()
		start := time.Now()
		for _, path := range []string{"/healthz", "/livez", "/readyz"} {
			w.must(http.StatusOK, "GET", path, "")
		}
		require.Zero(t, time.Since(start))
		w.must(http.StatusTooManyRequests, "GET", configmapsOfX, "")
		require.Equal(t, 5*time.Second, time.Since(start))
		close(hold.open)
		require.Equal(t, http.StatusOK, <-code)
		w.must(http.StatusOK, "GET", configmapsOfX, "")
		x.end()
	})
}

func TestWatchesOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, &apiserver.Options{Authenticate: byHeader, Limits: apiserver.Limits{Watches: 2, AllWatches: 3}})
		w.namespace("x")
		var open []*watching
		for _, user := range []string{"a", "a", "b"} {
			open = append(open, w.watch(configmapsOfX+"?watch=true", "User", user))
		}
		for _, user := range []string{"a", "c"} {
			a := w.do("GET", configmapsOfX+"?watch=true", "", "User", user)
			a.status(http.StatusTooManyRequests, `{"reason":"TooManyRequests","message":"Too many requests, please try again later.","details":{"retryAfterSeconds":1}}`)
		}
		open[0].end()
		synctest.Wait()
		open = append(open, w.watch(configmapsOfX+"?watch=true", "User", "c"))
		for _, x := range open {
			x.end()
		}
	})
}

func TestLargeBody(t *testing.T) {
	e := newEnv(t, nil)
	a := e.do("POST", "/api/v1/namespaces", strings.Repeat(" ", 3<<20+1), "Content-Type", "application/json")
	a.status(http.StatusRequestEntityTooLarge, `{"reason":"RequestEntityTooLarge","message":"Request entity too large: limit is 3145728"}`)
	require.Equal(t, http.StatusBadRequest, e.do("POST", "/api/v1/namespaces", strings.Repeat(" ", 3<<20), "Content-Type", "application/json").Code)
}

func TestBadLimits(t *testing.T) {
	e := newEnv(t, nil)
	for name, l := range map[string]apiserver.Limits{
		"Body": {Body: -1}, "Page": {Page: -1}, "Reads": {Reads: -1}, "Writes": {Writes: -1}, "QueueTimeout": {QueueTimeout: -1}, "Watches": {Watches: -1},
		"AllWatches": {AllWatches: -1}, "Timeout": {Timeout: -1}, "Wait": {Wait: -1}, "WatchTimeout": {WatchTimeout: -1}, "Header": {Header: -1},
		"HeaderBytes": {HeaderBytes: -1}, "Idle": {Idle: -1}, "Arrive": {Arrive: -1}, "Stall": {Stall: -1}, "Rate": {Rate: -1}, "Drain": {Drain: -1},
	} {
		_, err := apiserver.New(e.registry, served(), &apiserver.Options{Limits: l})
		require.ErrorContains(t, err, "Limits."+name+" ")
	}
}

// TestLongestTimes checks the maximum of durations. Sums of longer durations could overflow,
// and a watch would end at once.
func TestLongestTimes(t *testing.T) {
	const year = 365 * 24 * time.Hour
	e := newEnv(t, nil)
	for name, set := range map[string]func(*apiserver.Limits) *time.Duration{
		"QueueTimeout": func(l *apiserver.Limits) *time.Duration { return &l.QueueTimeout },
		"Timeout":      func(l *apiserver.Limits) *time.Duration { return &l.Timeout },
		"Wait":         func(l *apiserver.Limits) *time.Duration { return &l.Wait },
		"WatchTimeout": func(l *apiserver.Limits) *time.Duration { return &l.WatchTimeout },
		"Header":       func(l *apiserver.Limits) *time.Duration { return &l.Header },
		"Idle":         func(l *apiserver.Limits) *time.Duration { return &l.Idle },
		"Arrive":       func(l *apiserver.Limits) *time.Duration { return &l.Arrive },
		"Stall":        func(l *apiserver.Limits) *time.Duration { return &l.Stall },
		"Drain":        func(l *apiserver.Limits) *time.Duration { return &l.Drain },
	} {
		for _, tt := range []struct {
			value time.Duration
			ok    bool
		}{{year, true}, {year + 1, false}, {math.MaxInt64, false}} {
			var l apiserver.Limits
			*set(&l) = tt.value
			_, err := apiserver.New(e.registry, served(), &apiserver.Options{Limits: l})
			if tt.ok {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, "Limits."+name+" ")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, &apiserver.Options{Limits: apiserver.Limits{WatchTimeout: year}})
		w.namespace("x")
		x := w.watch(configmapsOfX + "?watch=true")
		time.Sleep(year - time.Hour)
		w.put("a", "1")
		x.expect("ADDED a 1")
		x.end()
	})
}

// TestAccessLog checks that each request is logged once, with the user, the verb and the
// outcome, and without its body and its credentials.
func TestAccessLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		var served []apiserver.Served
		var mu sync.Mutex
		w := newWire(t, &apiserver.Options{
			Logger: log.logger(), Authenticate: byHeader,
			Hooks: apiserver.Hooks{Served: func(s apiserver.Served) {
				mu.Lock()
				defer mu.Unlock()
				served = append(served, s)
			}},
		})
		w.namespace("x")
		w.must(http.StatusConflict, "POST", "/api/v1/namespaces", `{"metadata":{"name":"x","annotations":{"secret":"in-the-body"}}}`,
			"User", "alice", "Authorization", "Bearer in-the-header", "User-Agent", "kubectl/v1.36 "+strings.Repeat("x", 1000))
		line := log.with("user=alice")
		for _, part := range []string{
			"level=INFO", "msg=request", "method=POST", "path=/api/v1/namespaces", "verb=create", "code=409", "bytes=", "duration=", `agent="kubectl/v1.36 x`,
			`reason="namespaces \"x\" already exists"`,
		} {
			require.Contains(t, line, part)
		}
		require.NotContains(t, line, "events=")
		require.NotContains(t, line, "in-the-body")
		require.NotContains(t, line, "in-the-header")
		require.Less(t, len(line), 600)
		require.Equal(t, 1, strings.Count(log.text.String(), "code=409"))

		x := w.watch(configmapsOfX+"?watch=true&timeoutSeconds=5", "User", "bob")
		w.put("a", "1")
		x.expect("ADDED a 1")
		require.Empty(t, log.with("user=bob"))
		x.clean()
		synctest.Wait()
		require.Contains(t, log.with("user=bob"), "verb=watch")
		require.Contains(t, log.with("user=bob"), "events=1")
		require.Contains(t, log.with("user=bob"), "duration=5s")
		mu.Lock()
		defer mu.Unlock()
		last := served[len(served)-1]
		require.Equal(t, "bob", last.Attributes.User.Name)
		require.Equal(t, "watch", last.Attributes.Verb)
		require.Equal(t, http.StatusOK, last.Code)
		require.Equal(t, int64(1), last.Events)
		require.Positive(t, last.Bytes)
	})
}

// TestRefusalsRevealNothing checks that refusals do not reveal which objects exist. The answers
// for existing and missing namespaces are the same, byte for byte except for the name.
func TestRefusalsRevealNothing(t *testing.T) {
	list, err := authorization.Parse([]byte(`
grants:
- {users: [alice], namespaces: [mine], rules: [{verbs: ["*"], resources: ["*"]}]}
- {users: [root], cluster: true, rules: [{verbs: ["*"], resources: ["*"]}]}
`))
	require.NoError(t, err)
	grants, err := authorization.New(list)
	require.NoError(t, err)
	var refused []apiserver.Refusal
	e := newEnv(t, &apiserver.Options{Authenticate: byHeader, Authorizer: grants, Hooks: apiserver.Hooks{
		Refused: func(r apiserver.Refusal) { refused = append(refused, r) },
	}})
	for _, name := range []string{"there", "mine"} {
		e.must(http.StatusCreated, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`, "User", "root")
	}
	e.must(http.StatusCreated, "POST", "/api/v1/namespaces/there/configmaps", `{"metadata":{"name":"a"}}`, "User", "root")
	e.must(http.StatusOK, "DELETE", "/api/v1/namespaces/there", "", "User", "root")
	e.must(http.StatusCreated, "POST", "/api/v1/namespaces/mine/configmaps", `{"metadata":{"name":"a"}}`, "User", "alice")
	e.must(http.StatusOK, "GET", "/api/v1/namespaces/mine/configmaps", "", "User", "alice")
	refused = nil

	requests := []string{
		"GET /api/v1/namespaces/NS", "PUT /api/v1/namespaces/NS", "PATCH /api/v1/namespaces/NS", "DELETE /api/v1/namespaces/NS",
		"GET /api/v1/namespaces/NS/status", "PUT /api/v1/namespaces/NS/status", "PUT /api/v1/namespaces/NS/finalize", "POST /api/v1/namespaces/NS/finalize",
		"GET /api/v1/namespaces/NS/configmaps", "GET /api/v1/namespaces/NS/configmaps?watch=true", "GET /api/v1/namespaces/NS/configmaps?watch=true&resourceVersion=1",
		"GET /api/v1/namespaces/NS/configmaps/a", "GET /api/v1/namespaces/NS/configmaps/missing", "POST /api/v1/namespaces/NS/configmaps",
		"PUT /api/v1/namespaces/NS/configmaps/a", "PATCH /api/v1/namespaces/NS/configmaps/a", "DELETE /api/v1/namespaces/NS/configmaps/a",
		"DELETE /api/v1/namespaces/NS/configmaps", "GET /api/v1/watch/namespaces/NS", "GET /api/v1/watch/namespaces/NS/configmaps",
		"GET /api/v1/watch/namespaces/NS/configmaps/a", "GET /apis/example.com/v1/namespaces/NS/widgets", "GET /api/v1/namespaces/NS/unknown",
		"GET /api/v1/namespaces?fieldSelector=metadata.name%3DNS", "GET /api/v1/namespaces?watch=true&fieldSelector=metadata.name%3DNS",
		"GET /api/v1/namespaces?fieldSelector=name%3DNS", "TRACE /api/v1/namespaces/NS/configmaps", "GET /api/v1/namespaces/NS/configmaps?limit=x", "HEAD /api/v1/namespaces/NS",
	}
	for _, request := range requests {
		method, target, _ := strings.Cut(request, " ")
		var answers [3]string
		for i, name := range []string{"there", "gone1", "never"} {
			a := e.do(method, strings.ReplaceAll(target, "NS", name), `{"metadata":{"name":"a"}}`, "User", "alice", "Content-Type", "application/json")
			require.Equal(t, http.StatusForbidden, a.Code, "%s: %s", request, a.Body)
			a.Header.Del("Date")
			answers[i] = strings.ReplaceAll(fmt.Sprint(a.Header, a.Body), name, "NS")
		}
		require.Equal(t, answers[0], answers[1], request)
		require.Equal(t, answers[0], answers[2], request)
	}
	require.Len(t, refused, 3*len(requests))
	require.Equal(t, "alice", refused[0].User.Name)
	require.Equal(t, "there", refused[0].Attributes.Namespace)

	for request, want := range map[string]string{
		"GET /api/v1/namespaces":                                     `namespaces is forbidden: User "alice" cannot list resource "namespaces" in API group "" at the cluster scope`,
		"GET /api/v1/namespaces?watch=true":                          `namespaces is forbidden: User "alice" cannot watch resource "namespaces" in API group "" at the cluster scope`,
		"POST /api/v1/namespaces":                                    `namespaces is forbidden: User "alice" cannot create resource "namespaces" in API group "" at the cluster scope`,
		"GET /api/v1/configmaps":                                     `configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" at the cluster scope`,
		"GET /api/v1/list/configmaps":                                `configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" at the cluster scope`,
		"GET /api/v1/watch/configmaps":                               `configmaps is forbidden: User "alice" cannot watch resource "configmaps" in API group "" at the cluster scope`,
		"GET /api/v1/watch/namespaces":                               `namespaces is forbidden: User "alice" cannot watch resource "namespaces" in API group "" at the cluster scope`,
		"GET /apis/example.com/v1/racks/r":                           `racks.example.com "r" is forbidden: User "alice" cannot get resource "racks" in API group "example.com" at the cluster scope`,
		"GET /api/v1/namespaces/there":                               `namespaces "there" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "there"`,
		"GET /api/v1/namespaces?fieldSelector=metadata.name%3Dthere": `namespaces "there" is forbidden: User "alice" cannot list resource "namespaces" in API group "" in the namespace "there"`,
		"GET /version":                                               `forbidden: User "alice" cannot get path "/version"`,
	} {
		method, target, _ := strings.Cut(request, " ")
		a := e.do(method, target, "", "User", "alice")
		require.Equal(t, http.StatusForbidden, a.Code, request)
		require.Equal(t, want, a.text("message"), request)
		require.Equal(t, "Forbidden", a.text("reason"))
	}
	mine := e.must(http.StatusOK, "GET", "/api/v1/namespaces?fieldSelector=metadata.name%3Dmine", "", "User", "alice")
	require.Contains(t, mine.Body, `"mine"`)
	require.NotContains(t, mine.Body, "there")
	e.must(http.StatusForbidden, "GET", "/api/v1/namespaces?fieldSelector=metadata.name!%3Dmine", "", "User", "alice")
}

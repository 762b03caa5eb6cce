package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// benchEnv is a server on loopback with one namespace and some configmaps in it.
type benchEnv struct {
	b        *testing.B
	registry *registry.Registry
	content  *registry.Content
	address  string
}

func newBenchEnv(b *testing.B, objects int) *benchEnv {
	b.Helper()
	s, err := memory.New(nil)
	require.NoError(b, err)
	b.Cleanup(func() { s.Close() })
	e := newEnvOver(b, s, &apiserver.Options{Limits: apiserver.Limits{Watches: 10_000}})
	e.namespace("x")
	c, err := e.registry.Content(namespace.ResourceType{Name: "configmaps"})
	require.NoError(b, err)
	for i := range objects {
		_, err := c.Create(b.Context(), "x", benchObject(fmt.Sprintf("o%04d", i), "0"))
		require.NoError(b, err)
	}
	return &benchEnv{b: b, registry: e.registry, content: c, address: listen(b, func(ctx context.Context, l net.Listener) error {
		return e.server.Serve(ctx, l)
	})}
}

func benchObject(name, value string) registry.Object {
	data, _ := json.Marshal(map[string]string{"v": value, "config": strings.Repeat("x", 200)})
	return registry.Object{
		Meta:   namespace.Meta{Name: name, Labels: map[string]string{"app": "bench", "tier": "one"}},
		Fields: map[string]json.RawMessage{"data": data},
	}
}

// listen calls serve with a listener until the benchmark ends, and returns the address.
func listen(b *testing.B, serve func(context.Context, net.Listener) error) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l) }()
	b.Cleanup(func() {
		stop()
		<-done
	})
	return l.Addr().String()
}

// bare serves handler with net/http alone, as the baseline.
func bare(b *testing.B, handler http.HandlerFunc) string {
	return listen(b, func(ctx context.Context, l net.Listener) error {
		s := &http.Server{Handler: handler}
		defer context.AfterFunc(ctx, func() { s.Close() })()
		return s.Serve(l)
	})
}

// rawClient sends one request repeatedly over one connection. It does as little work as
// possible, so that the benchmark measures the server.
type rawClient struct {
	conn    net.Conn
	from    *bufio.Reader
	request []byte
}

func newRawClient(b *testing.B, address, request, body string) *rawClient {
	b.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(b, err)
	b.Cleanup(func() { c.Close() })
	text := request + " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: application/json\r\n"
	if body != "" {
		text += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return &rawClient{conn: c, from: bufio.NewReaderSize(c, 64<<10), request: []byte(text + "\r\n" + body)}
}

// header sends the request, reads the header of the answer, and returns the content length.
func (c *rawClient) header() (length int, err error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	for first := true; ; first = false {
		line, err := c.from.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 20")) {
			return 0, fmt.Errorf("the answer is %q", line)
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
		if len(line) == 2 {
			return length, nil
		}
	}
}

func (c *rawClient) do() error {
	length, err := c.header()
	if err == nil {
		_, err = c.from.Discard(length)
	}
	return err
}

// answerOf sends one request and returns the body of the answer.
func answerOf(b *testing.B, address, request, body string) []byte {
	b.Helper()
	c := newRawClient(b, address, request, body)
	length, err := c.header()
	require.NoError(b, err)
	answer := make([]byte, length)
	_, err = io.ReadFull(c.from, answer)
	require.NoError(b, err)
	return answer
}

// batch runs all clients concurrently. Each sends n requests. It returns the total time.
func batch(b *testing.B, clients []*rawClient, n int) time.Duration {
	start := time.Now()
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(func() {
			for range n {
				if err := c.do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	return time.Since(start)
}

// benchRequests measures a request against the server and against the bare handler,
// alternately, over 4 connections to each.
func benchRequests(b *testing.B, e *benchEnv, request, body string, code, each int) {
	const connections = 4
	answer := answerOf(b, e.address, request, body)
	other := bare(b, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 {
			if _, err := io.ReadAll(r.Body); err != nil {
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.WriteHeader(code)
		w.Write(answer)
	})
	var ours, theirs []*rawClient
	for range connections {
		ours = append(ours, newRawClient(b, e.address, request, body))
		theirs = append(theirs, newRawClient(b, other, request, body))
	}
	batch(b, ours, each)
	batch(b, theirs, each)
	var took, bareTook time.Duration
	requests := 0
	for b.Loop() {
		took += batch(b, ours, each)
		bareTook += batch(b, theirs, each)
		requests += connections * each
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(requests)/took.Seconds(), "req/s")
	b.ReportMetric(float64(requests)/bareTook.Seconds(), "bare-req/s")
	b.ReportMetric(took.Seconds()/bareTook.Seconds(), "x-bare")
}

func BenchmarkGet(b *testing.B) {
	benchRequests(b, newBenchEnv(b, 10), "GET "+configmapsOfX+"/o0003", "", http.StatusOK, 100)
}

func BenchmarkGetNamespace(b *testing.B) {
	benchRequests(b, newBenchEnv(b, 0), "GET /api/v1/namespaces/x", "", http.StatusOK, 100)
}

func BenchmarkList1000(b *testing.B) {
	benchRequests(b, newBenchEnv(b, 1000), "GET "+configmapsOfX, "", http.StatusOK, 5)
}

func BenchmarkList1000InPages(b *testing.B) {
	benchRequests(b, newBenchEnv(b, 1000), "GET "+configmapsOfX+"?limit=500", "", http.StatusOK, 10)
}

func BenchmarkCreate(b *testing.B) {
	body := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"o"},"data":{"config":"` + strings.Repeat("x", 200) + `"}}`
	benchRequests(b, newBenchEnv(b, 0), "POST "+configmapsOfX, body, http.StatusCreated, 50)
}

// audience is a set of watchers that count received events.
type audience struct {
	b     *testing.B
	conns []net.Conn
	heard sync.WaitGroup // one count for each event of this round and each watcher
	ready sync.WaitGroup
}

// join opens n watches at address, and returns when all have received a header.
func (a *audience) join(address string, n int) {
	a.ready.Add(n)
	for range n {
		c := newRawClient(a.b, address, "GET "+configmapsOfX+"?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "")
		c.from = bufio.NewReaderSize(c.conn, 4096)
		a.conns = append(a.conns, c.conn)
		go func() {
			if _, err := c.header(); err != nil {
				a.b.Error(err)
			}
			a.ready.Done()
			body := bufio.NewReader(httputil.NewChunkedReader(c.from))
			for {
				if _, err := body.ReadSlice('\n'); err != nil {
					return // the benchmark has ended
				}
				a.heard.Done()
			}
		}()
	}
	a.ready.Wait()
}

// memoryInUse returns the heap and stack bytes of the process after garbage collection.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// hub is the baseline for watches. It sends every frame to every client.
type hub struct {
	mu      sync.Mutex
	clients []chan []byte
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	frames := make(chan []byte, 100)
	h.mu.Lock()
	h.clients = append(h.clients, frames)
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	control := http.NewResponseController(w)
	control.Flush()
	for {
		select {
		case frame := <-frames:
			w.Write(frame)
			control.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (h *hub) send(frame []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.clients {
		c <- frame
	}
}

// BenchmarkWatch measures how fast changes of one object reach all watchers. B/watcher and
// bare-B/watcher include the memory of both ends of a connection.
func BenchmarkWatch(b *testing.B) {
	for _, c := range []struct{ watchers, events int }{{1, 200}, {100, 50}, {5000, 2}} {
		b.Run(strconv.Itoa(c.watchers), func(b *testing.B) { benchWatch(b, c.watchers, c.events) })
	}
}

func benchWatch(b *testing.B, watchers, events int) {
	e := newBenchEnv(b, 1)
	frame := []byte(`{"type":"MODIFIED","object":` + strings.TrimSpace(string(answerOf(b, e.address, "GET "+configmapsOfX+"/o0000", ""))) + "}\n")
	var h hub
	other := bare(b, h.serve)

	// The two audiences run in sequence, because their connections together may exceed the
	// limit on open files.
	var took, bareTook time.Duration
	delivered, round := 0, 0
	before := memoryInUse()
	ours := &audience{b: b}
	ours.join(e.address, watchers)
	each := memoryInUse() - before
	for b.Loop() {
		took += ours.hear(watchers*events, func() {
			for range events {
				round++
				_, err := e.content.Update(b.Context(), "x", benchObject("o0000", strconv.Itoa(round)))
				require.NoError(b, err)
			}
		})
		delivered += watchers * events
	}
	ours.leave()

	before = memoryInUse()
	theirs := &audience{b: b}
	theirs.join(other, watchers)
	bareEach := memoryInUse() - before
	for range delivered / watchers / events {
		bareTook += theirs.hear(watchers*events, func() {
			for range events {
				h.send(frame)
			}
		})
	}
	theirs.leave()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(delivered)/took.Seconds(), "events/s")
	b.ReportMetric(float64(delivered)/bareTook.Seconds(), "bare-events/s")
	b.ReportMetric(took.Seconds()/bareTook.Seconds(), "x-bare")
	b.ReportMetric(float64(each)/float64(watchers), "B/watcher")
	b.ReportMetric(float64(bareEach)/float64(watchers), "bare-B/watcher")
}

// hear calls publish, which must cause n deliveries in total, and returns how long it takes
// until all watchers have received them.
func (a *audience) hear(n int, publish func()) time.Duration {
	start := time.Now()
	a.heard.Add(n)
	publish()
	a.heard.Wait()
	return time.Since(start)
}

func (a *audience) leave() {
	for _, c := range a.conns {
		c.Close()
	}
}

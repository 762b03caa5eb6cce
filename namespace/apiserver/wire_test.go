package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
)

// memoryListener accepts in-memory connections. They block durably, so tests can use them in
// virtual time.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (l *memoryListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wire is a server with in-memory connections, for tests in virtual time.
type wire struct {
	*env
	listener *memoryListener
	client   *http.Client
	stop     context.CancelFunc
	ended    chan error // the result of Serve
}

func newWire(t testing.TB, o *apiserver.Options) *wire {
	t.Helper()
	return newWireOver(newEnv(t, o))
}

func newWireOver(e *env) *wire {
	e.t.Helper()
	return newWireOn(e, func(l net.Listener) net.Listener { return l })
}

// newWireOn returns a wire whose server accepts connections from over(listener).
func newWireOn(e *env, over func(net.Listener) net.Listener) *wire {
	e.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(e.t.Context()))
	w := &wire{env: e, listener: newMemoryListener(), stop: stop, ended: make(chan error, 1)}
	transport := &http.Transport{DialContext: w.listener.dial, DisableCompression: true}
	w.client = &http.Client{Transport: transport}
	go func() { w.ended <- e.server.Serve(ctx, over(w.listener)) }()
	e.t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		<-w.ended
	})
	return w
}

// event is one JSON event of a watch.
type event struct {
	Type   string
	Object struct {
		Kind     string
		Code     int
		Reason   string
		Message  string
		Metadata struct {
			Name, Namespace, ResourceVersion string
			Labels, Annotations              map[string]string
		}
		Data map[string]string
	}
}

func (e event) String() string {
	return strings.TrimSpace(e.Type + " " + e.Object.Metadata.Name + " " + e.Object.Data["v"])
}

// watching is the client's side of a watch.
type watching struct {
	t      testing.TB
	answer *http.Response
	frames *json.Decoder
	leave  context.CancelFunc
}

// watch starts a watch, and fails the test unless the answer is 200.
func (w *wire) watch(target string, headers ...string) *watching {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost"+target, nil)
	require.NoError(w.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	answer, err := w.client.Do(r)
	require.NoError(w.t, err)
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		require.Equal(w.t, http.StatusOK, answer.StatusCode, "%s", body)
	}
	return &watching{t: w.t, answer: answer, frames: json.NewDecoder(answer.Body), leave: leave}
}

// next returns the next event, or the error that ended the answer.
func (x *watching) next() (event, error) {
	var e event
	err := x.frames.Decode(&e)
	if err != nil {
		x.end()
	}
	return e, err
}

// must returns the next event, and fails the test if the answer has ended.
func (x *watching) must() event {
	x.t.Helper()
	e, err := x.next()
	require.NoError(x.t, err)
	return e
}

// expect compares the next events with their short forms, as [event.String] returns them.
func (x *watching) expect(want ...string) {
	x.t.Helper()
	for _, text := range want {
		require.Equal(x.t, text, x.must().String())
	}
}

// clean checks that the answer ends here and is complete.
func (x *watching) clean() {
	x.t.Helper()
	e, err := x.next()
	require.ErrorIs(x.t, err, io.EOF, "%v", e)
	require.NotErrorIs(x.t, err, io.ErrUnexpectedEOF)
}

func (x *watching) end() {
	x.leave()
	x.answer.Body.Close()
}

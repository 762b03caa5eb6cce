package agent

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// pipes is a listener without a network.
type pipes struct {
	clients chan net.Conn
	closed  context.Context
	close   func()
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.clients:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close()
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// The server closes connections of slow and idle clients. Otherwise this test would not end.
func TestIdleClients(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"no request":     "",
		"half a header":  "GET /healthz HTTP/1.1\r\nHost: x\r\n",
		"half a body":    "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
		"nothing more":   "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"a body for GET": "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newBareAgent(t, &rest.Config{}, io.Discard)
				ctx, cancel := context.WithCancel(t.Context())
				p := &pipes{clients: make(chan net.Conn)}
				p.closed, p.close = context.WithCancel(context.Background())
				handler, err := a.handler()
				require.NoError(t, err)
				served := make(chan error, 1)
				go func() { served <- a.serve(ctx, p, handler) }()
				client, server := net.Pipe()
				p.clients <- server
				go func() { _, _ = io.WriteString(client, request) }() // the server may close first
				_, _ = io.Copy(io.Discard, client)                     // until it closes
				require.NoError(t, client.Close())
				cancel()
				require.NoError(t, <-served)
			})
		})
	}
}

// Pages of other websites cannot read the endpoints through a browser.
func TestOtherWebsites(t *testing.T) {
	t.Parallel()
	a, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Config{DebugPages: true, Listen: "127.0.0.1:0", Hosts: []string{"console.example"}})
	require.NoError(t, err)
	defer a.pages.Close()
	a.ready.set("")
	handler, err := a.handler()
	require.NoError(t, err)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", pagesPath + "style.css"} {
		for host, allowed := range map[string]bool{"127.0.0.1": true, "localhost": true, "console.example": true, "evil.example": false} {
			r := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			require.Equal(t, allowed, w.Code != http.StatusForbidden, "%s%s: %d", host, path, w.Code)
		}
	}
}

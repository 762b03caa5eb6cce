package main

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// pipes is where one client comes, without a network.
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

// A client that keeps a connection and does not use it loses it: without that this
// test would not end.
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
				go func() { served <- a.serving(ctx, p, handler)() }()
				client, server := net.Pipe()
				p.clients <- server
				go func() { _, _ = io.WriteString(client, request) }() // the server may hang up first
				_, _ = io.Copy(io.Discard, client)                     // until it does
				require.NoError(t, client.Close())
				cancel()
				require.NoError(t, <-served)
			})
		})
	}
}

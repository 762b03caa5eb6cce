package etcd

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// gate is the network between a client and a server, which a test can break.
type gate struct {
	listener net.Listener

	mu      sync.Mutex
	target  string
	mute    bool // answers are discarded
	closed  bool
	conns   map[net.Conn]struct{}
	running sync.WaitGroup
}

func newGate(t *testing.T, url string) *gate {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{listener: l, target: strings.TrimPrefix(url, "http://"), conns: map[net.Conn]struct{}{}}
	g.running.Go(g.accept)
	t.Cleanup(func() {
		g.mu.Lock()
		g.closed = true
		g.mu.Unlock()
		_ = l.Close() // once
		g.breakAll()
		g.running.Wait()
	})
	return g
}

func (g *gate) url() string { return "http://" + g.listener.Addr().String() }

func (g *gate) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		target := g.target
		g.mu.Unlock()
		to, err := net.Dial("tcp", target)
		if err != nil || !g.add(conn, to) {
			_ = conn.Close() // the client must see a broken connection
			continue
		}
		g.running.Go(func() { g.carry(to, conn, false) })
		g.running.Go(func() { g.carry(conn, to, true) })
	}
}

func (g *gate) add(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		if g.closed {
			_ = c.Close() // unused
			continue
		}
		g.conns[c] = struct{}{}
	}
	return !g.closed
}

// carry copies one way. While the gate is mute it discards answers, which makes the connection
// unusable.
func (g *gate) carry(to, from net.Conn, answers bool) {
	defer func() {
		_ = to.Close() // either may be closed
		_ = from.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		g.mu.Lock()
		mute := g.mute && answers
		g.mu.Unlock()
		if n > 0 && !mute {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// breakAll closes every connection.
func (g *gate) breakAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Close() // it may be closed
	}
	clear(g.conns)
}

// lead directs new connections to another server and closes the existing ones.
func (g *gate) lead(url string) {
	g.mu.Lock()
	g.target = strings.TrimPrefix(url, "http://")
	g.mu.Unlock()
	g.breakAll()
}

// silence sets whether the gate discards answers. Requests still pass.
func (g *gate) silence(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mute = on
}

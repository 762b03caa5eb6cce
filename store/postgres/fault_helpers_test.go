package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// proxy stands between a store and its server and cuts connections.
type proxy struct {
	listener net.Listener
	target   string

	mu       sync.Mutex
	conns    map[net.Conn]bool
	silent   map[net.Conn]bool        // of conns: the proxy forwards nothing, and does not report a close
	cut      func(answer []byte) bool // called with each answer of the server; if true, the proxy cuts the connection instead of forwarding
	running  sync.WaitGroup
	deaf     bool // new connections are accepted, and nothing is forwarded
	isClosed bool
}

func newProxy(tb testing.TB, target string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}, silent: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

func (p *proxy) dsn() string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", p.listener.Addr())
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.isClosed = true
	p.mu.Unlock()
	p.cutAll()
	p.running.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.isDeaf() {
			if !p.keep(client) {
				_ = client.Close()
			}
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			_ = client.Close()
			continue
		}
		p.running.Go(func() { p.pass(server, client, nil) })
		p.running.Go(func() { p.pass(client, server, p.look) })
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.isClosed
}

func (p *proxy) look(answer []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut != nil && p.cut(answer)
}

func (p *proxy) isDeaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf
}

// deafen cuts every connection and does not answer new ones.
func (p *proxy) deafen() {
	p.mu.Lock()
	p.deaf = true
	p.mu.Unlock()
	p.cutAll()
}

// whenever makes the proxy cut each connection whose answer cut selects.
func (p *proxy) whenever(cut func(answer []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// pass copies until either side ends or look returns true.
func (p *proxy) pass(to, from net.Conn, look func([]byte) bool) {
	defer func() {
		if !p.isSilent(from) {
			_, _ = to.Close(), from.Close()
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err == nil && p.isSilent(from) {
			continue
		}
		if err != nil || look != nil && look(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) isSilent(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent[c]
}

// silence makes all current connections dead but open, as if the network dropped all packets. New
// connections work.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.silent[c] = true
	}
}

// cutAll cuts every connection.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// committedTag is the answer of the server to COMMIT.
var committedTag = []byte("COMMIT\x00")

func answersCommit(answer []byte) bool { return bytes.Contains(answer, committedTag) }

// history records the calls of clients while faults happen, and checks them.
type history struct {
	storetest.Recorder
	tb     testing.TB
	mu     sync.Mutex
	failed int // calls that failed because of a fault
	done   int
}

// clients runs n clients until stop is closed, each on one of the stores, and records their calls.
// Few keys cause conflicts. Few calls with an unknown outcome keep the check fast.
func (h *history) clients(n int, stop <-chan struct{}, stores ...store.Store) *sync.WaitGroup {
	var running sync.WaitGroup
	for i := range n {
		s := h.Store(i, stores[i%len(stores)])
		running.Go(func() { h.client(i, s, stop) })
	}
	return &running
}

func (h *history) client(i int, s store.Store, stop <-chan struct{}) {
	random := rand.New(rand.NewPCG(7, uint64(i)))
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		key := fmt.Sprintf("k%d", random.IntN(3))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		e, err := s.Get(ctx, key)
		switch {
		case err == nil:
			txn := store.Txn{If: []store.Condition{store.At(key, e.Revision)}, Do: []store.Operation{store.Put(key, fmt.Appendf(nil, "%d/%d", i, n))}}
			if random.IntN(4) == 0 {
				txn.Do[0] = store.Delete(key)
			}
			_, err = s.Commit(ctx, txn)
		case errors.Is(err, store.ErrNotFound):
			_, err = s.Commit(ctx, store.Txn{If: []store.Condition{store.Absent(key)}, Do: []store.Operation{store.Put(key, fmt.Appendf(nil, "%d/%d", i, n))}})
		}
		cancel()
		h.mu.Lock()
		if err != nil && !errors.Is(err, store.ErrConflict) {
			h.failed++
		} else {
			h.done++
		}
		h.mu.Unlock()
		if err != nil && !errors.Is(err, store.ErrConflict) {
			time.Sleep(time.Duration(5+random.IntN(20)) * time.Millisecond) // as a client backs off
		}
	}
}

// progress returns when more calls have succeeded.
func (h *history) progress(more int) {
	h.tb.Helper()
	count := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.done
	}
	from := count()
	require.Eventually(h.tb, func() bool { return count() >= from+more }, 40*time.Second, time.Millisecond, "clients that go on")
}

// follower watches all keys from the beginning. Like any client it resumes its watch after a
// failure.
type follower struct {
	changes []store.Change
	ended   chan error
	stop    context.CancelFunc
}

func follow(s store.Store, after store.Position) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{ended: make(chan error, 1), stop: cancel}
	go func() {
		for {
			var last error
			for c, err := range s.Watch(ctx, "", after) {
				if last = err; err == nil {
					after = c.Position
					if !c.Bookmark() {
						f.changes = append(f.changes, c)
					}
					if len(c.Events) > 0 && c.Events[0].Key == "the end" {
						f.ended <- nil
						return
					}
				}
			}
			if ctx.Err() != nil || errors.Is(last, store.ErrGone) {
				f.ended <- last
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return f
}

// verify requires that the history is linearizable, and that the changes that the follower saw
// give the state, without a gap or duplicate.
func (h *history) verify(s store.Store, start store.Page, f *follower) {
	h.tb.Helper()
	t := h.tb
	final, err := h.Store(1000, s).List(context.Background(), store.Query{})
	require.NoError(t, err)
	end := put(t, s, "the end", "")
	select {
	case err := <-f.ended:
		require.NoError(t, err, "the watch")
	case <-time.After(40 * time.Second):
		f.stop()
		require.Fail(t, "the watch does not reach the end", "%v", <-f.ended)
	}
	state := map[string]store.Entry{}
	for _, e := range start.Entries {
		state[e.Key] = e
	}
	last := start.Position.Revision
	for _, c := range f.changes {
		require.Equal(t, last+1, c.Position.Revision, "revisions have no gaps, and each comes once")
		last = c.Position.Revision
		if last == end {
			break
		}
		for _, e := range c.Events {
			if e.Deleted {
				delete(state, e.Key)
			} else {
				state[e.Key] = store.Entry{Key: e.Key, Value: e.Value, Revision: last}
			}
		}
	}
	require.Equal(t, end, last)
	replayed := map[string]store.Entry{}
	for _, e := range final.Entries {
		replayed[e.Key] = e
	}
	require.Equal(t, replayed, state, "the watched changes, against the listing")
	err = h.Check(30 * time.Second)
	if errors.Is(err, storetest.ErrUndecided) {
		t.Log("linearizability: ", err)
		err = nil
	}
	require.NoError(t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Logf("%d calls recorded, %d succeeded, %d failed", h.Len(), h.done, h.failed)
}

package etcdtest

import (
	"bytes"
	"net"
	"strings"
	"sync"
)

// link is the way to one member: a proxy that knows from which member a connection
// comes, by a header that members send to each other, and can hold it.
type link struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	changed *sync.Cond // cuts or closed changed
	cuts    map[string]bool
	closed  bool
	conns   map[net.Conn]struct{}
	running sync.WaitGroup
}

// newLink returns a link to a port of loopback.
func newLink(port int) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{
		listener: listener,
		target:   strings.TrimPrefix(address(port), "http://"),
		cuts:     map[string]bool{},
		conns:    map[net.Conn]struct{}{},
	}
	l.changed = sync.NewCond(&l.mu)
	l.running.Go(l.accept)
	return l, nil
}

func (l *link) url() string { return "http://" + l.listener.Addr().String() }

func (l *link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		if l.add(conn) {
			l.running.Go(func() {
				defer l.remove(conn)
				l.serve(conn)
			})
		}
	}
}

// add registers a connection, or closes it when the link is closed.
func (l *link) add(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *link) remove(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
	_ = conn.Close() // it may be closed
}

// serve carries one connection. All requests on it are of the same member.
func (l *link) serve(conn net.Conn) {
	head := make([]byte, 0, 4096)
	for !bytes.Contains(head, []byte("\r\n\r\n")) {
		n, err := conn.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		if err != nil || len(head) == cap(head) {
			return
		}
	}
	from := sender(head)
	if !l.pass(from) {
		return
	}
	target, err := net.Dial("tcp", l.target)
	if err != nil || !l.add(target) {
		return
	}
	defer l.remove(target)
	if _, err := target.Write(head); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(from, target, conn) })
	l.carry(from, conn, target)
	both.Wait()
}

// sender returns who sends the request that begins with head.
func sender(head []byte) string {
	const name = "x-server-from:"
	for _, line := range strings.Split(string(head), "\r\n") {
		if len(line) > len(name) && strings.EqualFold(line[:len(name)], name) {
			return strings.TrimSpace(line[len(name):])
		}
	}
	return ""
}

// carry copies until either side ends, and ends the other.
func (l *link) carry(from string, to, source net.Conn) {
	defer func() {
		_ = to.Close() // either may be closed
		_ = source.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := source.Read(buffer)
		if !l.pass(from) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while from is cut off; it reports false when the link was closed.
func (l *link) pass(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.cuts[from] && !l.closed {
		l.changed.Wait()
	}
	return !l.closed
}

// cut holds what comes from a member and goes to it on this link.
func (l *link) cut(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts[from] = true
}

// heal lets everything pass.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.cuts)
	l.changed.Broadcast()
}

// close ends the link with its connections, and waits until nothing of it runs.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	_ = l.listener.Close() // once
	for conn := range l.conns {
		_ = conn.Close() // it may be closed
	}
	l.changed.Broadcast()
	l.mu.Unlock()
	l.running.Wait()
}

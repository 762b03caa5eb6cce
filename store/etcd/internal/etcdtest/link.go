package etcdtest

import (
	"bytes"
	"net"
	"strings"
	"sync"
)

// link is a proxy in front of one member. A header that members send to each other identifies the
// sending member, and the link can hold its connections.
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

// newLink returns a link to a loopback port.
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

// add registers a connection, or closes it if the link is closed.
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

// serve carries one connection, whose requests all come from one member.
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

// sender returns the sender of a request that begins with head.
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

// pass waits while from is cut off. It returns false if the link was closed.
func (l *link) pass(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.cuts[from] && !l.closed {
		l.changed.Wait()
	}
	return !l.closed
}

// cut holds the traffic of a member on this link.
func (l *link) cut(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts[from] = true
}

// heal releases all traffic.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.cuts)
	l.changed.Broadcast()
}

// close closes the link and its connections, and waits for its goroutines.
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

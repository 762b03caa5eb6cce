// Package flow shares a server's capacity between its clients: concurrent requests
// ([Limiter]), memory ([Budget]) and open watches ([Counter]). A request beyond the
// capacity waits for a short time in a bounded queue, or is refused. A client that floods
// the server delays only itself.
//
// Every operation of a Limiter and a Counter takes constant time, however many requests
// wait. The package starts no goroutines: a request waits in its own.
package flow

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// ErrTooMany refuses what there is no room for. Try again later.
var ErrTooMany = errors.New("too many requests")

// Client names who shares room with whom: a user, or where nobody is known the
// address that a connection comes from. Of an IPv6 address that is the network
// (64 bits), since one host has all of its addresses.
func Client(user, remoteAddr string) string {
	if user != "" {
		return "user:" + user
	}
	host, _, err := net.SplitHostPort(remoteAddr)
	if err != nil {
		host = remoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "addr:" + host
	}
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return "addr:" + network.String()
		}
	}
	return "addr:" + addr.String()
}

// Options tunes a [Limiter]. Zero fields take the defaults; New takes negative ones
// for zero.
type Options struct {
	Slots int // requests served at once; default 400
	// Share is how many of the slots one client may have; default half of them,
	// rounded up.
	Share int
	// Queue is how many requests may wait; default as many as there are slots. Of one
	// client at most Share of them wait.
	Queue int
	// Wait is how long a request may wait; default 5 s.
	Wait time.Duration
}

func (o Options) withDefaults() Options {
	if o.Slots <= 0 {
		o.Slots = 400
	}
	if o.Share <= 0 {
		o.Share = (o.Slots + 1) / 2
	}
	if o.Queue <= 0 {
		o.Queue = o.Slots
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Second
	}
	return o
}

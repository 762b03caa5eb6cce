// Package httpguard rejects requests that a page of another web site makes a browser send.
//
// A server that admits every client, such as one without authentication on loopback, also
// admits every web page that is open in a browser on that machine. A page reaches it in two
// ways, and a [Guard] rejects both:
//
//   - A cross-origin request, such as a form or a fetch to http://127.0.0.1:8080. The page
//     cannot read the response, but the request has its effect. Browsers name the origin in
//     the headers Sec-Fetch-Site and Origin, which [http.CrossOriginProtection] checks.
//   - DNS rebinding: the page's own name is made to resolve to the address of the server.
//     The browser treats the server as the page's origin, so the page reads everything. Only
//     the header Host reveals it, because it contains the page's name.
//
// Other programs send neither Sec-Fetch-Site nor Origin, but they must reach the server by
// localhost, an IP address or one of the hosts given to [New].
package httpguard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Any, as a host of [New], accepts every Host. It is for servers behind a proxy that
// checks the header.
const Any = "*"

// Guard rejects requests of other web sites. Use [New] to create one. It is safe for
// concurrent use.
type Guard struct {
	hosts map[string]bool
	cross http.CrossOriginProtection
}

// New returns a guard for a server that clients reach by hosts, names without a port.
// Loopback names (localhost and its subdomains) and IP addresses are always accepted, because
// no site can use one as its own name. An invalid host is a [namespace.ErrBadRequest].
func New(hosts ...string) (*Guard, error) {
	g := &Guard{hosts: make(map[string]bool, len(hosts))}
	for _, host := range hosts {
		name := canonical(host)
		if name == "" || strings.ContainsAny(name, ":/@[] ") || strings.Contains(name, "*") && name != Any {
			return nil, &namespace.Error{
				Kind: namespace.ErrBadRequest, Message: fmt.Sprintf("host %q must be a name without scheme and port, such as console.example.com, or %s", host, Any),
			}
		}
		g.hosts[name] = true
	}
	return g, nil
}

// Check returns nil if the request is allowed, else an error of kind
// [namespace.ErrForbidden].
func (g *Guard) Check(r *http.Request) error {
	if !g.reachedBy(r.Host) {
		return forbidden("the request is for the host %q, which this server does not answer to: "+
			"use localhost or an IP address, or have the operator allow the name", phase.Truncate(r.Host, 128))
	}
	if link(r) {
		return nil
	}
	// The standard library permits reads from other origins, because their pages cannot see
	// the response. They could still overload the server, so Check treats reads as writes.
	write := http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host}
	if err := g.cross.Check(&write); err != nil {
		return forbidden("the request comes from a page of another web site: %v", err)
	}
	return nil
}

// Handler returns a handler that answers 403 to requests that [Guard.Check] rejects, and
// passes all others to next.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// reachedBy reports whether the server has the Host of a request. Browsers always send one.
func (g *Guard) reachedBy(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return true
	}
	name := canonical(host)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || g.hosts[name] || g.hosts[Any]
}

// canonical returns a name in lower case without a final dot.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// link reports whether the browser navigates a whole tab, as for a link.
func link(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func forbidden(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrForbidden, Message: fmt.Sprintf(format, args...)}
}

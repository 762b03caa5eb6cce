package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// Options configure a [Server]. Zero fields take the defaults.
type Options struct {
	// Authenticate returns the user of a request. If it fails, the request is answered 401.
	// Nil: every user is "system:anonymous".
	Authenticate func(*http.Request) (authorization.User, error)
	// Authorizer decides which requests users may send. The server asks it for the verb of the
	// request, and again if a request creates an object by applying it or puts a namespace on
	// hold. Nil: EVERY USER MAY DO EVERYTHING, which is safe only if no other
	// user can reach the server.
	Authorizer authorization.Authorizer
	// Hosts are the names, without a port, by which clients reach the server. A server
	// without Authenticate would trust every web page that is open on a machine which can
	// reach it. Therefore it answers 403 to requests that browsers send for other websites,
	// and to requests for any host but localhost, IP addresses and Hosts (package httpguard).
	// With Authenticate it does so only if Hosts are given. Set them if browsers send the
	// credentials automatically (cookies, client certificates).
	Hosts []string
	// Limits bound the resources that requests use.
	Limits Limits
	// Logger records each request at level Info, and failures of the server at Warn and Error
	// with details that clients do not see. Nil: no log.
	Logger *slog.Logger
	// Hooks report requests.
	Hooks Hooks
	// Version is the answer to GET /version. Zero: v1.36.0+nslifecycle. The first part is the
	// version of Kubernetes whose API is served, since clients refuse unknown versions. The
	// build metadata promises that creates are atomic with the namespace's gate (rule R6):
	// package deleter/kubernetes then reports an empty namespace as empty at once, without waiting
	// for creates in flight. Keep it in a version of your own.
	Version version.Info
	// Ready is called for GET /readyz after a successful read of the store. An error of
	// either is answered with 500. Limits.Timeout bounds both together. Clients may send any
	// number of probes, so concurrent probes, and probes within a second, share one result.
	// If Ready is nil the server is ready while the store answers.
	Ready func(context.Context) error
}

// Hooks are functions that the server calls in the goroutine of a request, concurrently. They
// should return quickly. Nil members are not called.
type Hooks struct {
	// Refused is called when the Authorizer refused a request, before the answer.
	Refused func(Refusal)
	// Served is called at the end of every request, whatever its result.
	Served func(Served)
}

// Refusal is a request that the Authorizer did not allow.
type Refusal struct {
	User       authorization.User
	Attributes authorization.Attributes
	Reason     string // of the Authorizer; may be empty
}

// Served is a request and its answer.
type Served struct {
	Attributes authorization.Attributes // with the user, if the request was authenticated
	Code       int                      // zero: nothing was sent
	Bytes      int64                    // of the body that was sent
	Events     int64                    // of a watch
	Duration   time.Duration
	Failure    string // the message of the Status, or why the answer was aborted; empty: none
}

// Limits bound the resources that requests use. Zero fields take the defaults. Negative
// values and times of more than a year are invalid.
type Limits struct {
	// Body is the maximum size of a request body in bytes; default 3 MiB. A larger body is
	// answered 413.
	Body int64
	// Memory bounds the bytes that all requests together use for bodies, decoded values and
	// answers, including garbage; default 384 MiB, at least 16 MiB. Requests are weighed
	// before they are decoded: a small document with very many values is heavy, above all in
	// YAML. One client gets at most half. A request heavier than that is answered 413. A
	// request that finds the memory in use waits for up to QueueTimeout and is then answered 429.
	// Memory for an object or a part of a list is reserved before it is read from the store.
	// Plain JSON lists are read and sent in parts.
	Memory int64
	// Page bounds the objects in a page of a list with a limit; default 10,000. A page also
	// ends at 1 MiB of objects. A list without a limit is answered in full. If it has to be
	// converted (to YAML, protobuf or a Table) and exceeds a client's share of Memory, it is
	// answered 413; the client must then set a limit.
	Page int

	// Reads and Writes bound the concurrent requests that read and that write; default 400
	// and 200. One client gets at most half. Further requests wait for up to QueueTimeout and are
	// then answered 429; clients with fewer requests come first. A client is a user, or for
	// an unknown user an address. A watch counts as a read until it has sent the initial
	// state.
	Reads, Writes int
	// QueueTimeout is how long a request waits for capacity; default 5 s.
	QueueTimeout time.Duration
	// Watches bounds the open watches of one client, AllWatches the open watches of all; default
	// 1,000 and 50,000. Further watches are answered 429.
	Watches, AllWatches int

	// Timeout ends requests other than watches with 504; default 60 s.
	Timeout time.Duration
	// Wait is how long a request waits for a resource version that the store has not reached;
	// default 3 s.
	Wait time.Duration
	// WatchTimeout ends watches without a timeout of their own, after once to twice this
	// time, at random so that clients do not all return at once; default 30 minutes.
	WatchTimeout time.Duration

	// Header is how long a client may take to send the header of a request, HeaderBytes the
	// maximum size of the header, and Idle how long a connection may be without a request;
	// default 10 s, 64 KiB and 3 minutes. They apply to [Server.Serve] only.
	Header      time.Duration
	HeaderBytes int
	Idle        time.Duration
	// Arrive is how long the body of a request may take to arrive; default 30 s. A later one
	// is answered 408.
	Arrive time.Duration
	// Stall is how long a client may delay an answer in total; default 30 s. Waiting for the
	// client spends this credit, and each Rate bytes that the client reads give back one second.
	// Rate is in bytes per second; default 128 KiB. A client that exhausts Stall loses its
	// connection. So a request occupies its slot and its memory for at most Stall plus the time
	// that its answer takes at Rate.
	Stall time.Duration
	Rate  int
	// Drain is how long [Server.Serve] waits for requests at its end; default 30 s.
	Drain time.Duration
}

// maxTime bounds times so that sums of them do not overflow.
const maxTime = 365 * 24 * time.Hour

func (o Options) withDefaults() Options {
	o.Limits = o.Limits.withDefaults()
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Version = cmp.Or(o.Version, version.Info{
		Major: "1", Minor: "36", GitVersion: "v1.36.0+nslifecycle",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
	return o
}

func (l Limits) withDefaults() Limits {
	l.Body, l.Memory, l.Page = cmp.Or(l.Body, 3<<20), cmp.Or(l.Memory, 384<<20), cmp.Or(l.Page, 10_000)
	l.Reads, l.Writes, l.QueueTimeout = cmp.Or(l.Reads, 400), cmp.Or(l.Writes, 200), cmp.Or(l.QueueTimeout, 5*time.Second)
	l.Watches, l.AllWatches = cmp.Or(l.Watches, 1000), cmp.Or(l.AllWatches, 50_000)
	l.Timeout, l.Wait, l.WatchTimeout = cmp.Or(l.Timeout, time.Minute), cmp.Or(l.Wait, 3*time.Second), cmp.Or(l.WatchTimeout, 30*time.Minute)
	l.Header, l.HeaderBytes, l.Idle = cmp.Or(l.Header, 10*time.Second), cmp.Or(l.HeaderBytes, 64<<10), cmp.Or(l.Idle, 3*time.Minute)
	l.Arrive, l.Stall, l.Rate = cmp.Or(l.Arrive, 30*time.Second), cmp.Or(l.Stall, 30*time.Second), cmp.Or(l.Rate, 128<<10)
	l.Drain = cmp.Or(l.Drain, 30*time.Second)
	return l
}

// validate checks complete limits.
func (l Limits) validate() error {
	for name, value := range map[string]int64{
		"Body": l.Body, "Page": int64(l.Page), "Reads": int64(l.Reads), "Writes": int64(l.Writes), "Watches": int64(l.Watches),
		"AllWatches": int64(l.AllWatches), "HeaderBytes": int64(l.HeaderBytes), "Rate": int64(l.Rate),
	} {
		if value < 0 {
			return fmt.Errorf("apiserver: Options.Limits.%s is %d: it must not be negative", name, value)
		}
	}
	for name, value := range map[string]time.Duration{
		"QueueTimeout": l.QueueTimeout, "Timeout": l.Timeout, "Wait": l.Wait, "WatchTimeout": l.WatchTimeout, "Header": l.Header,
		"Idle": l.Idle, "Arrive": l.Arrive, "Stall": l.Stall, "Drain": l.Drain,
	} {
		if value < 0 {
			return fmt.Errorf("apiserver: Options.Limits.%s is %v: it must not be negative", name, value)
		}
		if value > maxTime {
			return fmt.Errorf("apiserver: Options.Limits.%s is %v: it must be at most %v", name, value, maxTime)
		}
	}
	if l.Memory < 16<<20 {
		return fmt.Errorf("apiserver: Options.Limits.Memory is %d: it must be at least %d", l.Memory, 16<<20)
	}
	return nil
}

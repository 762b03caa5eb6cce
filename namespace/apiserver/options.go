package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// Options tunes a [Server]. Zero fields take the defaults.
type Options struct {
	// Authenticate says who sent a request. An error refuses it with 401. Nil:
	// everybody is "system:anonymous".
	Authenticate func(*http.Request) (authorization.User, error)
	// Authorizer decides what they may do. Nil: EVERYBODY MAY DO EVERYTHING, which is
	// right only where nobody but its owner can reach the server.
	Authorizer authorization.Authorizer
	// Limits bound what requests may take.
	Limits Limits
	// Logger takes one line for every request, and what went wrong. Nil: nothing is
	// logged.
	Logger *slog.Logger
	// Hooks are told what happens.
	Hooks Hooks
	// Version is what GET /version answers. Zero: the version of Kubernetes whose API
	// is served, v1.36.0; clients refuse to work with versions they do not know.
	Version version.Info
	// Ready is asked by GET /readyz; an error answers 500. Nil: always ready.
	Ready func(context.Context) error
}

// Limits bound what requests may take. Zero fields take the defaults; negative
// ones are refused.
type Limits struct {
	Body int64 // bytes of a request body; default 3 MiB
	// Page is the most objects that a page of a list with a limit has; default
	// 10,000. A list that was asked for without a limit is answered whole.
	Page int
	// Timeout ends requests other than watches with 504; default 60 s.
	Timeout time.Duration
	// Wait is how long a request for a resource version that is not there yet waits
	// for it; default 3 s.
	Wait time.Duration
	// WatchTimeout ends watches that do not say how long they want to be; default 30
	// minutes and up to as much again, so that clients do not all return at once.
	WatchTimeout time.Duration
	// InFlight is how many requests other than watches are served at once; default
	// 400. Further ones are answered 429.
	InFlight int
	// Watches is how many watches one client may have open; default 1,000. Further
	// ones are answered 429.
	Watches int
	// Header is how long a client may take to send the header of a request, for
	// [Server.Serve]; default 10 s.
	Header time.Duration
}

func (l Limits) withDefaults() (Limits, error) {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Body", l.Body}, {"Page", int64(l.Page)}, {"Timeout", int64(l.Timeout)}, {"Wait", int64(l.Wait)},
		{"WatchTimeout", int64(l.WatchTimeout)}, {"InFlight", int64(l.InFlight)}, {"Watches", int64(l.Watches)}, {"Header", int64(l.Header)},
	} {
		if f.value < 0 {
			return l, invalidOption("option Limits.%s is %d, it must not be negative", f.name, f.value)
		}
	}
	orElse(&l.Body, 3<<20)
	orElse(&l.Page, 10_000)
	orElse(&l.Timeout, time.Minute)
	orElse(&l.Wait, 3*time.Second)
	orElse(&l.WatchTimeout, 30*time.Minute)
	orElse(&l.InFlight, 400)
	orElse(&l.Watches, 1000)
	orElse(&l.Header, 10*time.Second)
	return l, nil
}

func orElse[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

func invalidOption(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrInvalid, Message: "apiserver: " + fmt.Sprintf(format, args...)}
}

package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// Options tunes a [Server]. Zero fields take the defaults.
type Options struct {
	// Authenticate says who sent a request. An error refuses it with 401. Nil:
	// everybody is "system:anonymous".
	Authenticate func(*http.Request) (authorization.User, error)
	// Authorizer decides what they may do. It is asked about the verb of the request, and
	// once more where that creates by applying, or puts a namespace on hold. Nil:
	// EVERYBODY MAY DO EVERYTHING, which is right only where nobody but its owner can reach
	// the server.
	Authorizer authorization.Authorizer
	// Hosts are names, without a port, that clients reach the server by. A server without
	// Authenticate also trusts every web page that is open on a machine which can reach it.
	// So it refuses with 403 requests that browsers send for other web sites, and requests
	// for any host but localhost, IP addresses and Hosts, as package httpguard does. With
	// Authenticate it does so only if Hosts are given; give them where the credentials are
	// such as browsers send by themselves (cookies, client certificates).
	Hosts []string
	// Limits bound what requests may take.
	Limits Limits
	// Logger takes one line for every request at level Info, and failures of the server,
	// which clients are referred to its log for, at Warn and Error. Nil: nothing is logged.
	Logger *slog.Logger
	// Hooks are told what happens.
	Hooks Hooks
	// Version is what GET /version answers. Zero: the version of Kubernetes whose API
	// is served, since clients refuse to work with versions they do not know, and that
	// it is this library which serves it: v1.36.0+nslifecycle. The build metadata tells
	// that creates are atomic with the namespace's gate (rule R6): whoever empties a
	// terminating namespace need not wait for creates that may still be under way, and
	// package deleter/kubernetes does not. Keep it in a version of your own.
	Version version.Info
	// Ready is asked by GET /readyz after the store has answered a read; an error of
	// either answers 500. Both together have Limits.Timeout. Any client may send any
	// number of probes, so those that come meanwhile and within a second share the answer.
	// Nil: ready while the store answers.
	Ready func(context.Context) error
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

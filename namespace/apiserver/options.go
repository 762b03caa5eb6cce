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
	// Hosts are the names, without a port, by which clients reach the server. A server
	// without Authenticate would trust every web page that is open on a machine which can
	// reach it. Therefore it answers 403 to requests that browsers send for other web sites,
	// and to requests for any host but localhost, IP addresses and Hosts (package httpguard).
	// With Authenticate it does so only if Hosts are given. Set them if browsers send the
	// credentials automatically (cookies, client certificates).
	Hosts []string
	// Limits bound what requests may take.
	Limits Limits
	// Logger gets one record per request at level Info, and failures of the server, whose
	// details clients do not see, at Warn and Error. If it is nil nothing is logged.
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
	// Ready is called for GET /readyz after a successful read of the store. An error of
	// either is answered with 500. Limits.Timeout bounds both together. Clients may send any
	// number of probes, so concurrent probes, and probes within a second, share one result.
	// If Ready is nil the server is ready while the store answers.
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

package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// answerWithin bounds the requests for namespaces, of watches the opening. API servers
// end requests after a minute, so later than this no answer comes any more.
const answerWithin = 90 * time.Second

// errSilent is why a request was given up.
var errSilent = fmt.Errorf("the API server did not answer within %v", answerWithin)

// ask makes one request.
func ask[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeoutCause(ctx, answerWithin, errSilent)
	defer cancel()
	answer, err := request(within)
	return answer, explain(within, err)
}

// failure is the error of a request about the namespace called name, which may be
// empty: an [*namespace.Error] where the API server refused it for a reason that
// package namespace has a kind for. The cause stays within reach.
func failure(doing, name string, err error) error {
	status, kind := refusal(name, err)
	if kind == nil {
		return fmt.Errorf("%s: %w", about(doing, name), err)
	}
	return &namespace.Error{
		Kind: kind, Resource: namespace.Resource, Name: name, Message: status.Message, Causes: violations(status), Err: err,
	}
}

// writeFailure is failure for a write, which may have been made although there is
// an error.
func writeFailure(doing, name string, err error) error {
	if !inDoubt(err) {
		return failure(doing, name, err)
	}
	return &namespace.Error{
		Kind: namespace.ErrUnknownOutcome, Resource: namespace.Resource, Name: name, Err: err,
		Message: fmt.Sprintf("%s: the outcome is unknown, read it to see: %v", about(doing, name), err),
	}
}

func about(doing, name string) string {
	if name == "" {
		return doing
	}
	return fmt.Sprintf("%s %q", doing, name)
}

// inDoubt reports whether a write that ended with err may have been made: nobody
// refused it, and it was on its way.
func inDoubt(err error) bool {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		code := s.Status().Code
		return code == http.StatusGatewayTimeout || code == http.StatusBadGateway
	}
	return !unsent(err)
}

// unsent reports whether there was no connection that the request could have been
// sent over.
func unsent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") {
		return true
	}
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch)
}

// refusal returns what the server said, and the kind of that; nil: there is none.
// What client-go makes of an answer that is not a Status has no kind either: whoever
// sent it knows nothing of namespaces.
func refusal(name string, err error) (status metav1.Status, kind error) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) || apierrors.IsUnexpectedServerError(err) {
		return status, nil
	}
	status = s.Status()
	switch {
	case apierrors.IsNotFound(err):
		// A path that the server does not have is not a namespace that is gone.
		if status.Details != nil && status.Details.Name == name && name != "" {
			kind = namespace.ErrNotFound
		}
	case apierrors.IsAlreadyExists(err):
		kind = namespace.ErrExists
	case apierrors.IsConflict(err):
		kind = namespace.ErrConflict
	case apierrors.IsForbidden(err):
		kind = namespace.ErrForbidden
	case apierrors.IsInvalid(err):
		kind = namespace.ErrInvalid
	case expired(err):
		kind = namespace.ErrGone
	case apierrors.IsBadRequest(err):
		kind = namespace.ErrBadRequest
	}
	return status, kind
}

func violations(status metav1.Status) []namespace.Violation {
	if status.Details == nil {
		return nil
	}
	return each(status.Details.Causes, func(c metav1.StatusCause) namespace.Violation {
		return namespace.Violation{Type: string(c.Type), Field: c.Field, Message: c.Message}
	})
}

// explained adds to err what client-go leaves to be guessed: that somebody else
// answered, such as a login page or a proxy.
func explained(err error) error {
	if !pageOfWeb(err) {
		return err
	}
	return fmt.Errorf("the answer is a web page, not one of the Kubernetes API: check the server's address, and for proxies: %w", err)
}

// pageOfWeb reports whether the answer was a page of HTML, which no API server sends.
// Plain text some do: for a path that they do not know, or when they are overloaded.
func pageOfWeb(err error) bool {
	if err == nil {
		return false
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		var negotiate runtime.NegotiateError // of a watch; for the rest there is no type
		return errors.As(err, &negotiate) && negotiate.ContentType == "text/html" ||
			strings.Contains(err.Error(), "serializer for text/html")
	}
	details := s.Status().Details
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse && strings.HasPrefix(strings.TrimSpace(c.Message), "<")
	})
}

// badRequest refuses what must not be asked of an API server.
func badRequest(name, format string, args ...any) error {
	return &namespace.Error{
		Kind: namespace.ErrBadRequest, Resource: namespace.Resource, Name: name, Message: fmt.Sprintf(format, args...),
	}
}

// checkNamespace refuses what makes no request, or one to another path.
func checkNamespace(ctx context.Context, name string) error {
	switch {
	case ctx == nil:
		return badRequest(name, "the context is nil")
	case name == "":
		return badRequest(name, "the name of a namespace is needed")
	case name == "." || name == ".." || strings.ContainsAny(name, "/%"):
		return badRequest(name, "%q cannot be the name of a namespace", name)
	}
	return context.Cause(ctx)
}

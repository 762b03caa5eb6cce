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

// requestTimeout limits requests for namespaces, and the start of watches. API servers end
// requests after a minute, so no response comes later.
const requestTimeout = 90 * time.Second

// errTimeout is the cause of a request that reached requestTimeout.
var errTimeout = fmt.Errorf("no response from the API server within %v", requestTimeout)

// withTimeout makes one request.
func withTimeout[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	within, cancel := context.WithTimeoutCause(ctx, requestTimeout, errTimeout)
	defer cancel()
	answer, err := request(within)
	return answer, clientError(within, err)
}

// requestError returns the error of a request for the namespace called name, which may be empty.
// It is a [*namespace.Error] if the API server refused the request for a reason that package
// namespace knows. errors.As reaches the cause.
func requestError(doing, name string, err error) error {
	status, kind := classify(name, err)
	if kind == nil {
		return fmt.Errorf("%s: %w", about(doing, name), err)
	}
	return &namespace.Error{
		Kind: kind, Resource: namespace.Resource, Name: name, Message: status.Message, Causes: violations(status), Err: err,
	}
}

// writeError is requestError for a write, which may have succeeded in spite of err.
func writeError(doing, name string, err error) error {
	if !outcomeUnknown(err) {
		return requestError(doing, name, err)
	}
	return &namespace.Error{
		Kind: namespace.ErrUnknownOutcome, Resource: namespace.Resource, Name: name, Err: err,
		Message: fmt.Sprintf("%s: unknown outcome, read the namespace again: %v", about(doing, name), err),
	}
}

func about(doing, name string) string {
	if name == "" {
		return doing
	}
	return fmt.Sprintf("%s %q", doing, name)
}

// outcomeUnknown reports whether a write that returned err may have succeeded: it was sent, and no
// API server refused it.
func outcomeUnknown(err error) bool {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		code := s.Status().Code
		return code == http.StatusGatewayTimeout || code == http.StatusBadGateway
	}
	return !neverSent(err)
}

// neverSent reports whether no connection was established.
func neverSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") {
		return true
	}
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch)
}

// classify returns the Status of the server and the kind of error, or a nil kind. A response that
// is not a Status comes from another kind of server and has no kind.
func classify(name string, err error) (status metav1.Status, kind error) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) || apierrors.IsUnexpectedServerError(err) {
		return status, nil
	}
	status = s.Status()
	switch {
	case apierrors.IsNotFound(err):
		// A 404 for the path does not mean that the namespace is gone.
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
	case isExpired(err):
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
	return mapSlice(status.Details.Causes, func(c metav1.StatusCause) namespace.Violation {
		return namespace.Violation{Type: string(c.Type), Field: c.Field, Message: c.Message}
	})
}

// webPageError adds advice to err if a web page answered, such as a login page or a proxy.
func webPageError(err error) error {
	if !isWebPage(err) {
		return err
	}
	return fmt.Errorf("the response is a web page, not one of the Kubernetes API: check the server's address and proxies: %w", err)
}

// isWebPage reports whether the response was HTML, which no API server sends. API servers do send
// plain text, for unknown paths and under overload.
func isWebPage(err error) bool {
	if err == nil {
		return false
	}
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		var negotiate runtime.NegotiateError // of a watch; other requests return an untyped error
		return errors.As(err, &negotiate) && negotiate.ContentType == "text/html" ||
			strings.Contains(err.Error(), "serializer for text/html")
	}
	details := s.Status().Details
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse && strings.HasPrefix(strings.TrimSpace(c.Message), "<")
	})
}

func badRequest(name, format string, args ...any) error {
	return &namespace.Error{
		Kind: namespace.ErrBadRequest, Resource: namespace.Resource, Name: name, Message: fmt.Sprintf(format, args...),
	}
}

// checkNamespace rejects names that would change the path of a request.
func checkNamespace(ctx context.Context, name string) error {
	switch {
	case name == "":
		return badRequest(name, "the name of a namespace is required")
	case name == "." || name == ".." || strings.ContainsAny(name, "/%"):
		return badRequest(name, "%q cannot be the name of a namespace", name)
	}
	return context.Cause(ctx)
}

// isMissing reports whether the server says that an object, a type or a path does not exist. A web
// page with code 404 does not count.
func isMissing(err error) bool { return apierrors.IsNotFound(err) && !isWebPage(err) }

// isUnserved reports whether the server does not know the path or its method.
func isUnserved(err error) bool {
	return isMissing(err) || apierrors.IsMethodNotSupported(err) && !isWebPage(err)
}

// isExpired reports whether a resource version or a page token is too old.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// clientError adds advice to an error of the client, as [webPageError] does, and the cause of ctx
// if it ended. It returns nil for nil.
func clientError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return webPageError(err)
}

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// errInternal is what clients are told of errors that are none of theirs: the text
// of those may name hosts, users and files.
var errInternal = errors.New("the server could not do it; its log has the details")

// errUnknownOutcome is that for a write that may have been made.
var errUnknownOutcome = errors.New("the outcome of the write is unknown, the server's log has the details; read the object back to see whether it was written")

// errFull is the Status for a write when the store has no space left.
var errFull = errors.New("the server has no space left, nothing was written")

// failure returns the Status that a client is sent for an error. Errors that have
// one already ([apierrors.APIStatus]) keep it; what is not known is 500, and what it
// says is for the log alone.
func failure(err error) metav1.Status {
	var known apierrors.APIStatus
	var refusal *namespace.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		return known.Status()
	case errors.Is(err, codec.ErrMediaType):
		return plain(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, err)
	case errors.Is(err, codec.ErrNotAcceptable):
		return plain(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, err)
	case errors.As(err, &large):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", large.Limit)).ErrStatus
	case errors.Is(err, namespace.ErrUnknownOutcome):
		return apierrors.NewInternalError(errUnknownOutcome).ErrStatus // no timeout: clients take those for reads that can be repeated
	case errors.Is(err, store.ErrFull):
		return plain(http.StatusInsufficientStorage, "InsufficientStorage", errFull)
	case errors.Is(err, namespace.ErrUnavailable), errors.Is(err, store.ErrUnavailable):
		return unavailable()
	case errors.As(err, &refusal):
		return refused(refusal)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 1).ErrStatus
	case errors.Is(err, store.ErrClosed), errors.Is(err, registry.ErrClosed):
		return unavailable()
	}
	return apierrors.NewInternalError(errInternal).ErrStatus
}

// plain is a Status that says nothing but the error.
func plain(code int32, reason metav1.StatusReason, err error) metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: err.Error()}
}

// codes are what the kinds of refusals are on the wire.
var codes = []struct {
	kind   error
	code   int32
	reason metav1.StatusReason
}{
	{namespace.ErrNotFound, http.StatusNotFound, metav1.StatusReasonNotFound},
	{namespace.ErrExists, http.StatusConflict, metav1.StatusReasonAlreadyExists},
	{namespace.ErrConflict, http.StatusConflict, metav1.StatusReasonConflict},
	{namespace.ErrTerminating, http.StatusForbidden, metav1.StatusReasonForbidden},
	{namespace.ErrForbidden, http.StatusForbidden, metav1.StatusReasonForbidden},
	{namespace.ErrInvalid, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid},
	{namespace.ErrBadRequest, http.StatusBadRequest, metav1.StatusReasonBadRequest},
	{namespace.ErrGone, http.StatusGone, metav1.StatusReasonExpired},
}

// refused is the Status for a refusal of the registry.
func refused(e *namespace.Error) metav1.Status {
	switch {
	case errors.Is(e, store.ErrFuture):
		return future(e)
	case errors.Is(e, store.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(e.Message).ErrStatus
	}
	for _, c := range codes {
		if errors.Is(e, c.kind) {
			return metav1.Status{
				Status: metav1.StatusFailure, Code: c.code, Reason: c.reason,
				Message: e.Message, Details: details(e, c.reason),
			}
		}
	}
	return apierrors.NewInternalError(errInternal).ErrStatus
}

// details says which object was refused. Kubernetes sends none with 400 and 410.
func details(e *namespace.Error, reason metav1.StatusReason) *metav1.StatusDetails {
	if reason == metav1.StatusReasonBadRequest || reason == metav1.StatusReasonExpired {
		return nil
	}
	resource, group, _ := strings.Cut(e.Resource, ".")
	d := &metav1.StatusDetails{Name: e.Name, Group: group, Kind: resource}
	for _, v := range e.Causes {
		d.Causes = append(d.Causes, metav1.StatusCause{Type: metav1.CauseType(v.Type), Message: v.Message, Field: v.Field})
	}
	return d
}

// future is the Status for a resource version that the store has not come to.
func future(err error) metav1.Status {
	var ahead *store.FutureError
	if errors.As(err, &ahead) {
		return tooLarge(fmt.Sprintf("Too large resource version: %d, current: %d", ahead.Asked, ahead.Current))
	}
	return tooLarge("Too large resource version: " + err.Error())
}

// tooLarge is the Status for a resource version that lies ahead.
func tooLarge(message string) metav1.Status {
	s := apierrors.NewTimeoutError(message, 1).ErrStatus
	s.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return s
}

// unavailable is the Status while the server shuts down or its store cannot be reached.
func unavailable() metav1.Status {
	s := apierrors.NewServiceUnavailable("the server is currently unable to handle the request").ErrStatus
	s.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return s
}

// errNoSuchPath answers paths under which nothing is served.
func errNoSuchPath() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// errMethod answers methods that a path does not have.
func errMethod() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
		Message: "the server does not allow this method on the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// badParameter refuses a parameter of the query.
func badParameter(name, format string, args ...any) error {
	return apierrors.NewBadRequest(name + ": " + fmt.Sprintf(format, args...))
}

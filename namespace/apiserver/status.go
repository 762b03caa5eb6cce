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
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// Messages for errors whose own text may name hosts, users and files.
var (
	errInternal       = errors.New("the log of the server has the details")
	errUnknownOutcome = errors.New("the outcome of the write is unknown; read the object back to see whether it was written, and see the log of the server for the details")
	errFull           = errors.New("the storage of the server is full; nothing was written")
)

// failure returns the Status for an error:
//
//	has a Status ([apierrors.APIStatus])   that Status
//	refused by the codec or net/http       406, 413, 415
//	unknown outcome of a write             500
//	store full                             507
//	unavailable, closed                    503, retry after 1 s
//	refused by the registry                [namespace.HTTPStatus]
//	context ended                          504
//	other                                  500, without its text
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
		return apierrors.NewInternalError(errUnknownOutcome).ErrStatus
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

// plain returns a Status without details.
func plain(code int32, reason metav1.StatusReason, err error) metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: err.Error()}
}

// reasons are the reasons for refusals by status code.
var reasons = map[int]metav1.StatusReason{
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusBadRequest:          metav1.StatusReasonBadRequest,
	http.StatusGone:                metav1.StatusReasonExpired,
}

// refused returns the Status for a refusal of the registry.
func refused(e *namespace.Error) metav1.Status {
	switch {
	case errors.Is(e, store.ErrFuture):
		return future(e)
	case errors.Is(e, store.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(e.Message).ErrStatus
	}
	code := namespace.HTTPStatus(e)
	reason := reasons[code]
	switch {
	case reason == "":
		return apierrors.NewInternalError(errInternal).ErrStatus
	case errors.Is(e, namespace.ErrExists):
		reason = metav1.StatusReasonAlreadyExists
	}
	return metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: e.Message, Details: details(e, reason)}
}

// details identifies the refused object. Kubernetes sends no details with 400 and 410.
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

// future returns the Status for a resource version that the store has not reached.
func future(err error) metav1.Status {
	var ahead *store.FutureError
	if errors.As(err, &ahead) {
		return tooLarge(fmt.Sprintf("Too large resource version: %d, current: %d", ahead.Asked, ahead.Current))
	}
	return tooLarge("Too large resource version: " + err.Error())
}

func tooLarge(message string) metav1.Status {
	s := apierrors.NewTimeoutError(message, 1).ErrStatus
	s.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return s
}

// unavailable returns the Status while the server shuts down or its store is unreachable.
func unavailable() metav1.Status {
	s := apierrors.NewServiceUnavailable("the server is currently unable to handle the request").ErrStatus
	s.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return s
}

// tooMany asks the client to retry later.
func tooMany() error {
	return apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)
}

// errNoSuchPath is the answer for an unknown path.
func errNoSuchPath() error {
	s := plain(http.StatusNotFound, metav1.StatusReasonNotFound, errors.New("the server could not find the requested resource"))
	s.Details = &metav1.StatusDetails{}
	return &apierrors.StatusError{ErrStatus: s}
}

// errMethod is the answer for a method that a path does not have.
func errMethod(w http.ResponseWriter, allowed ...string) error {
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
	}
	s := plain(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, errors.New("the server does not allow this method on the requested resource"))
	s.Details = &metav1.StatusDetails{}
	return &apierrors.StatusError{ErrStatus: s}
}

// unsupported is the answer for a body that the server does not read.
func unsupported(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: plain(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, fmt.Errorf(format, args...))}
}

// badParameter rejects a parameter of the query.
func badParameter(name, format string, args ...any) error {
	return apierrors.NewBadRequest(name + ": " + fmt.Sprintf(format, args...))
}

func badRequest(resource, name, format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: resource, Name: name, Message: fmt.Sprintf(format, args...)}
}

// excerpt shortens text from clients for messages and the log.
func excerpt(text string) string { return phase.Truncate(text, 100) }

package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// ErrClosed ends the watches of a closed registry.
var ErrClosed = broadcast.ErrClosed

// errContention ends a request after its last attempt.
var errContention = errors.New("other writers changed it at every attempt")

func badRequest(resource, name, format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: resource, Name: name, Message: fmt.Sprintf(format, args...)}
}

func invalidOption(format string, args ...any) error {
	return &namespace.Error{Kind: namespace.ErrInvalid, Message: "registry: " + fmt.Sprintf(format, args...)}
}

func notFound(resource, name string) error {
	return &namespace.Error{
		Kind: namespace.ErrNotFound, Resource: resource, Name: name,
		Message: fmt.Sprintf("%s %q not found", resource, name),
	}
}

// alreadyExists refuses a name that is in use. deleting reports whether the existing object
// is being deleted.
func alreadyExists(resource, name string, deleting bool) error {
	message := fmt.Sprintf("%s %q already exists", resource, name)
	if deleting {
		message = "object is being deleted: " + message
	}
	return &namespace.Error{Kind: namespace.ErrExists, Resource: resource, Name: name, Message: message}
}

// generatedExists is alreadyExists after several generated names were in use.
func generatedExists(resource, name string) error {
	return &namespace.Error{
		Kind: namespace.ErrExists, Resource: resource, Name: name,
		Message: fmt.Sprintf("%s %q already exists, the server was not able to generate a unique name for the object", resource, name),
	}
}

func conflict(resource, name, why string, cause error) error {
	return &namespace.Error{
		Kind: namespace.ErrConflict, Resource: resource, Name: name, Err: cause,
		Message: fmt.Sprintf("Operation cannot be fulfilled on %s %q: %s", resource, name, why),
	}
}

// modified is a conflict with a concurrent write.
func modified(resource, name string, cause error) error {
	return conflict(resource, name, "the object has been modified; please apply your changes to the latest version and try again", cause)
}

func unknownOutcome(resource, name string, cause error) error {
	return &namespace.Error{
		Kind: namespace.ErrUnknownOutcome, Resource: resource, Name: name, Err: cause,
		Message: fmt.Sprintf("the outcome of the write to %s %q is unknown, read the object to find out: %v", resource, name, cause),
	}
}

// storeError converts an error of the store or of the context into an error of the registry.
func storeError(resource, name string, err error) error {
	var typed *namespace.Error
	var kind error
	switch {
	case errors.As(err, &typed):
		return err
	case errors.Is(err, store.ErrUnknownOutcome):
		return unknownOutcome(resource, name, err)
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrFull):
		kind = namespace.ErrUnavailable
	case errors.Is(err, store.ErrGone):
		kind = namespace.ErrGone
	case errors.Is(err, store.ErrTooLarge):
		kind = namespace.ErrInvalid
	case errors.Is(err, store.ErrFuture), errors.Is(err, store.ErrInvalid):
		kind = namespace.ErrBadRequest
	case errors.Is(err, store.ErrNotFound):
		return notFound(resource, name)
	default:
		if name != "" {
			resource = fmt.Sprintf("%s %q", resource, name)
		}
		return fmt.Errorf("registry: %s: %w", resource, err)
	}
	return &namespace.Error{Kind: kind, Resource: resource, Name: name, Message: fmt.Sprintf("%s: %v", resource, err), Err: err}
}

// contextError returns the cause if ctx has ended, before the request does anything.
func contextError(ctx context.Context, resource, name string) error {
	if ctx.Err() == nil {
		return nil
	}
	return storeError(resource, name, context.Cause(ctx))
}

// damaged is an error about an entry that a registry cannot have written.
func damaged(e store.Entry, err error) error {
	return fmt.Errorf("registry: the entry at %q, revision %d, is damaged or was not written by a registry: %w", e.Key, e.Revision, err)
}

// clip shortens a name for a message.
func clip(s string) string { return phase.Truncate(s, maxSegment) }

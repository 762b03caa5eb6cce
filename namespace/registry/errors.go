package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/broadcast"
	"github.com/nslifecycle/nslifecycle/store"
)

// ErrClosed ends the watches of a registry that was closed, and refuses further
// ones.
var ErrClosed = broadcast.ErrClosed

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

// taken refuses a name that is in use, perhaps by an object on its way out.
func taken(resource, name string, deleting bool) error {
	message := fmt.Sprintf("%s %q already exists", resource, name)
	if deleting {
		message = "object is being deleted: " + message
	}
	return &namespace.Error{Kind: namespace.ErrExists, Resource: resource, Name: name, Message: message}
}

// exhausted is taken for a name that was generated, again and again.
func exhausted(resource, name string) error {
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

// modified is a conflict with somebody else's write.
func modified(resource, name string, cause error) error {
	return conflict(resource, name, "the object has been modified; please apply your changes to the latest version and try again", cause)
}

// terminating refuses content for a namespace that is not Active (rule R6). It
// matches both [namespace.ErrTerminating] and [namespace.ErrForbidden].
func terminating(resource, name, ns string) error {
	return &namespace.Error{
		Kind: namespace.ErrTerminating, Resource: resource, Name: name, Err: namespace.ErrForbidden,
		Message: fmt.Sprintf("%s %q is forbidden: unable to create new content in namespace %s because it is being terminated", resource, name, ns),
		Causes: []namespace.Violation{{
			Type: "NamespaceTerminating", Field: "metadata.namespace",
			Message: fmt.Sprintf("namespace %s is being terminated", ns),
		}},
	}
}

// unknown says that a write may or may not have been made.
func unknown(resource, name string, cause error) error {
	return &namespace.Error{
		Kind: namespace.ErrUnknownOutcome, Resource: resource, Name: name, Err: cause,
		Message: fmt.Sprintf("the outcome of the write to %s %q is unknown, read it to see: %v", resource, name, cause),
	}
}

// stored is an error of the store, or of the context, seen from above: of the
// kind that it has here, or as it is.
func stored(resource, name string, err error) error {
	var typed *namespace.Error
	var kind error
	switch {
	case errors.As(err, &typed):
		return err
	case errors.Is(err, store.ErrUnknownOutcome):
		return unknown(resource, name, err)
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

// ended returns the cause when ctx has ended: then nothing is begun.
func ended(ctx context.Context, resource, name string) error {
	if ctx.Err() == nil {
		return nil
	}
	return stored(resource, name, context.Cause(ctx))
}

package patch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

func refuse(k kinds.Kind, name string, kind error, format string, args ...any) *namespace.Error {
	return &namespace.Error{Kind: kind, Resource: k.Name().String(), Name: name, Message: fmt.Sprintf(format, args...)}
}

// refusal says why a patch could not be applied.
func refusal(k kinds.Kind, name string, err error) error {
	var e *namespace.Error
	var operations errOperations
	switch {
	case errors.As(err, &operations), errors.Is(err, errCopies), errors.Is(err, errEffort), errors.Is(err, errMatches):
		return tooLarge(k, name, strings.TrimPrefix(err.Error(), errUnmergeable.Error()+"\n"))
	case errors.Is(err, errUnmergeable), errors.Is(err, errDepth), errors.Is(err, errWhole), errors.Is(err, errNoName):
		why := clip(strings.ReplaceAll(strings.TrimPrefix(err.Error(), errUnmergeable.Error()+"\n"), "\n", ": "))
		e = refuse(k, name, namespace.ErrInvalid, "the server rejected our request due to an error in our request: %s", why)
		// kubectl shows nothing but the causes.
		e.Causes = []namespace.Violation{{Type: namespace.FieldInvalid, Field: "patch", Message: why}}
	default:
		e = refuse(k, name, namespace.ErrBadRequest, "the patch is malformed: %s", clip(err.Error()))
	}
	e.Err = err
	return e
}

func tooLarge(k kinds.Kind, name, message string) error {
	e := refuse(k, name, namespace.ErrInvalid, "%s", message)
	e.Err = store.ErrTooLarge
	return e
}

// unfit refuses a patch that makes an object invalid.
func unfit(k kinds.Kind, name string, value []byte, why string) error {
	return namespace.Invalid(qualified(k), k.Name().String(), name, []namespace.Violation{{
		Type: namespace.FieldInvalid, Field: "patch", Message: fmt.Sprintf("Invalid value: %q: %s", clip(string(value)), why),
	}})
}

func qualified(k kinds.Kind) string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

// invalidOption refuses a parameter of the request.
func invalidOption(field, kind, message string) error {
	return namespace.Invalid("PatchOptions.meta.k8s.io", "", "", []namespace.Violation{{Type: kind, Field: field, Message: message}})
}

// clip returns the beginning of a long text.
func clip(s string) string { return phase.Truncate(s, 500) }

// guarded turns a panic of the libraries beneath f into an error. A hostile patch can
// have them compare the keys of list items that cannot be compared, or nulls in lists.
func guarded(f func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = errors.Join(errUnmergeable, fmt.Errorf("%v", fault))
		}
	}()
	return f()
}

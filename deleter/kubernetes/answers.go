package kubernetes

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var errNoAnswer = errors.New("the client returned neither an object nor an error")

// missing reports whether the server says that something is not there: an object, a
// type or a path. A web page with a 404 says nothing.
func missing(err error) bool { return apierrors.IsNotFound(err) && !pageOfWeb(err) }

// unserved reports whether the server says that it does not do a thing where it was
// asked to: the path is not there, or does not have the method.
func unserved(err error) bool {
	return missing(err) || apierrors.IsMethodNotSupported(err) && !pageOfWeb(err)
}

// expired reports whether a resource version or a page token is too old.
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// explain adds to an error of the client what it leaves unsaid, as [explained] does,
// and why ctx ended if it has. Nil stays nil.
func explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return explained(err)
}

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

const (
	opList  = "list the terminating namespaces"
	opWatch = "watch the terminating namespaces"
	// terminatingSelector selects terminating namespaces on the server.
	terminatingSelector = "status.phase=Terminating"
	// namespacePage is the page size of listings.
	namespacePage = 500
)

// errStopped is returned if the caller left the loop.
var errStopped = errors.New("the caller has left the loop")

// Terminating yields the terminating namespaces and their changes. If after is empty, it yields
// each namespace that is terminating now, then one [namespace.EventSynced]. If after is the Token
// of an earlier event, it yields the changes since, then an EventSynced once it has caught up, as
// determined by resource versions or else by one second without events. Then it yields further
// changes: an event for each namespace that becomes terminating, one for each finalizer added to
// spec.finalizers of a terminating namespace, and one for each removal. Other writes, such as
// status updates, are not yielded. Tokens are resource versions that do not exceed the yielded
// changes. If the server ends the watch, the loop resumes it.
//
// Only terminating namespaces are read and watched, with the field selector
// status.phase=Terminating. If the server refuses the selector, all namespaces are read, and the
// Active ones are dropped.
//
// An error that matches [namespace.ErrGone] means that changes were lost: start again with an
// empty token. After other errors the loop may be resumed at the last token. The loop runs in the
// caller's goroutine and leaves no goroutines behind. If ctx ends, the last error is its cause.
func (n *Namespaces) Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error] {
	return func(yield func(namespace.Event, error) bool) {
		f := follower{Namespaces: n, yield: yield, known: map[string]knownNamespace{}}
		err := f.follow(ctx, after)
		if err == errStopped {
			return
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(namespace.Event{}, err)
	}
}

// follower is one loop over [Namespaces.Terminating].
type follower struct {
	*Namespaces
	yield       func(namespace.Event, error) bool
	known       map[string]knownNamespace // terminating namespaces at position, by name
	position    string                    // resource version up to which changes were yielded
	syncTarget  string                    // position at which the loop has caught up; empty: unknown
	synced      bool                      // the loop has caught up
	listed      bool                      // position is from a listing just now
	shortBefore bool                      // the previous watch ended early
}

type knownNamespace struct {
	uid        types.UID
	finalizers finalizer.Set
}

func (f *follower) follow(ctx context.Context, after string) error {
	err := context.Cause(ctx)
	switch {
	case err != nil:
	case after == "":
		err = f.list(ctx)
	default:
		err = f.resume(ctx, after)
	}
	for err == nil {
		err = f.watch(ctx)
	}
	return err
}

// list yields the terminating namespaces.
func (f *follower) list(ctx context.Context) error {
	version, err := f.pages(ctx, metav1.ListOptions{}, func(k *corev1.Namespace) error {
		return f.terminating(k, "")
	})
	if err != nil {
		return err
	}
	f.position, f.listed = version, true
	return f.sync()
}

// resume reads the state at a token. It is needed to distinguish status updates from added
// finalizers, and new removals from yielded ones.
func (f *follower) resume(ctx context.Context, after string) error {
	// A server waits for a version that it has not reached, and client-go retries for most of a
	// minute, so compare the versions first.
	now, err := f.read(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return requestError(opList, "", err)
	}
	if beyond(after, now.ResourceVersion) {
		return goneError(fmt.Sprintf("the server has not reached resource version %q: list again", after), nil)
	}
	exactly := metav1.ListOptions{ResourceVersion: after, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	_, err = f.pages(ctx, exactly, func(k *corev1.Namespace) error {
		f.known[k.Name] = knownNamespace{k.UID, setOf(k.Spec.Finalizers)}
		return nil
	})
	if unknownVersion(err) {
		return goneError(fmt.Sprintf("the state at resource version %q is no longer available: list again", after), err)
	}
	f.position = after
	return err
}

// unknownVersion reports whether err rejects the resource version of a list: it is invalid, too
// old, or not yet reached, for example after a restore from a backup.
func unknownVersion(err error) bool {
	return err != nil && (errors.Is(err, namespace.ErrGone) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge))
}

func goneError(message string, err error) error {
	var refused *namespace.Error
	if errors.As(err, &refused) {
		err = refused.Err // keep one kind only
	}
	return &namespace.Error{Kind: namespace.ErrGone, Resource: namespace.Resource, Message: message, Err: err}
}

// pages calls visit for each terminating namespace, page by page, and returns the resource version
// of the listing.
func (f *follower) pages(ctx context.Context, o metav1.ListOptions, visit func(*corev1.Namespace) error) (string, error) {
	o.Limit = namespacePage
	o.FieldSelector = f.selector()
	for {
		list, err := f.page(ctx, &o)
		if err != nil {
			return "", requestError(opList, "", err)
		}
		for i := range list.Items {
			if k := &list.Items[i]; k.DeletionTimestamp != nil {
				if err := visit(k); err != nil {
					return "", err
				}
			}
		}
		switch list.Continue {
		case "":
			return list.ResourceVersion, nil
		case o.Continue:
			return "", errors.New(opList + ": the server repeats a page")
		}
		o.Continue = list.Continue
		o.ResourceVersion, o.ResourceVersionMatch = "", "" // the token has it
	}
}

// page reads one page, without the selector if the server refuses that.
func (f *follower) page(ctx context.Context, o *metav1.ListOptions) (*corev1.NamespaceList, error) {
	list, err := f.read(ctx, *o)
	if o.FieldSelector == "" || o.Continue != "" || !isRefused(err) {
		return list, err
	}
	plain := *o
	plain.FieldSelector = ""
	list, plainErr := f.read(ctx, plain)
	if plainErr != nil {
		return nil, err
	}
	f.all.Store(true)
	*o = plain
	return list, nil
}

func (f *follower) read(ctx context.Context, o metav1.ListOptions) (*corev1.NamespaceList, error) {
	return withTimeout(ctx, func(ctx context.Context) (*corev1.NamespaceList, error) { return f.client.List(ctx, o) })
}

// isRefused reports whether the API server, and not a proxy, rejects a request as invalid.
func isRefused(err error) bool { return apierrors.IsBadRequest(err) && !isWebPage(err) }

func (f *follower) selector() string {
	if f.all.Load() {
		return ""
	}
	return terminatingSelector
}

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
	listing  = "list the terminating namespaces"
	watching = "watch the terminating namespaces"
	// whatTerminates selects the terminating namespaces where the server can select.
	whatTerminates = "status.phase=Terminating"
	// namespacePage is how many namespaces are read at once.
	namespacePage = 500
)

// errStopped ends the loop without a further word.
var errStopped = errors.New("the caller has left the loop")

// Terminating yields, when after is empty, each namespace that is terminating now,
// then one [namespace.EventSynced], then what happens: each that becomes terminating,
// again with every finalizer that is added to spec.finalizers of a terminating one,
// and each that is gone. Writes that change nothing of this, such as those of a
// status, are not told. When after is the Token of an earlier event it yields what
// happened since, and an EventSynced once that is caught up: as resource versions
// tell, or else after a second of silence. Tokens are resource versions, and none is
// beyond what was told. A watch that the server ends is resumed within the loop.
//
// Only terminating namespaces are read and watched (the field selector
// status.phase=Terminating). A server that refuses the selector is watched for all
// namespaces, and the terminating ones are picked here; no others are kept.
//
// [namespace.ErrGone] says that what happened since cannot be told: start anew with
// an empty token. Other errors may be resumed after at the last token. The loop runs
// in the caller's goroutine, and nothing that it started outlives it. When ctx ends
// the last error is its cause.
func (n *Namespaces) Terminating(ctx context.Context, after string) iter.Seq2[namespace.TerminationEvent, error] {
	return func(yield func(namespace.TerminationEvent, error) bool) {
		if ctx == nil {
			yield(namespace.TerminationEvent{}, badRequest("", "the context is nil"))
			return
		}
		f := follower{Namespaces: n, yield: yield, known: map[string]held{}}
		err := f.follow(ctx, after)
		if err == errStopped {
			return
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(namespace.TerminationEvent{}, err)
	}
}

// follower is one loop over [Namespaces.Terminating].
type follower struct {
	*Namespaces
	yield     func(namespace.TerminationEvent, error) bool
	known     map[string]held // what is terminating at position, by name
	position  string          // the resource version up to which everything was told
	reference string          // one that is caught up when it is reached; empty: not known
	synced    bool            // it is caught up
	listed    bool            // position is that of a list that was made just now
	hasty     bool            // the last watch was a short one
}

// held is what is remembered of a terminating namespace.
type held struct {
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

// list tells what is terminating now.
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

// resume takes up the state at a token. Without it, a status could not be told from
// a finalizer that was added, nor a removal from one that was told already.
func (f *follower) resume(ctx context.Context, after string) error {
	// For a version that it has not come to a server waits, and client-go asks it again
	// and again: that takes most of a minute, so it is found out here.
	now, err := f.read(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return failure(listing, "", err)
	}
	if beyond(after, now.ResourceVersion) {
		return gone(fmt.Sprintf("the server has not come to resource version %q: list anew", after), nil)
	}
	exactly := metav1.ListOptions{ResourceVersion: after, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	_, err = f.pages(ctx, exactly, func(k *corev1.Namespace) error {
		f.known[k.Name] = held{k.UID, setOf(k.Spec.Finalizers)}
		return nil
	})
	if unknownVersion(err) {
		return gone(fmt.Sprintf("the state at resource version %q is not to be had any more: list anew", after), err)
	}
	f.position = after
	return err
}

// unknownVersion reports whether err refuses the resource version of a list: it is
// none, or too old, or one that the server has not come to, such as after it was
// restored from a backup.
func unknownVersion(err error) bool {
	return err != nil && (errors.Is(err, namespace.ErrGone) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge))
}

func gone(message string, err error) error {
	var refused *namespace.Error
	if errors.As(err, &refused) {
		err = refused.Err // of one kind only
	}
	return &namespace.Error{Kind: namespace.ErrGone, Resource: namespace.Resource, Message: message, Err: err}
}

// pages calls visit for each namespace that is terminating, page by page, and
// returns the resource version at which that is true.
func (f *follower) pages(ctx context.Context, o metav1.ListOptions, visit func(*corev1.Namespace) error) (string, error) {
	o.Limit = namespacePage
	o.FieldSelector = f.selector()
	for {
		list, err := f.page(ctx, &o)
		if err != nil {
			return "", failure(listing, "", err)
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
			return "", errors.New(listing + ": the server repeats a page")
		}
		o.Continue = list.Continue
		o.ResourceVersion, o.ResourceVersionMatch = "", "" // it is in the token
	}
}

// page reads one page; without the selector if the server refuses that.
func (f *follower) page(ctx context.Context, o *metav1.ListOptions) (*corev1.NamespaceList, error) {
	list, err := f.read(ctx, *o)
	if o.FieldSelector == "" || o.Continue != "" || !refused(err) {
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
	list, err := ask(ctx, func(ctx context.Context) (*corev1.NamespaceList, error) { return f.client.List(ctx, o) })
	if err == nil && list == nil {
		err = errNoAnswer
	}
	return list, err
}

// refused reports whether the API server, and not somebody in between, takes
// a request for a wrong one.
func refused(err error) bool { return apierrors.IsBadRequest(err) && !pageOfWeb(err) }

func (f *follower) selector() string {
	if f.all.Load() {
		return ""
	}
	return whatTerminates
}

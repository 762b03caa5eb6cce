package kubernetes

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Namespaces reads, watches and writes the namespaces of a cluster. It implements
// [controller.Namespaces] and [pass.Namespaces]. [Cluster.Namespaces] returns it. Its methods are
// safe for concurrent use.
//
// Errors are [*namespace.Error] if package namespace has a kind for them; errors.As reaches the
// server's [*apierrors.StatusError]. Requests time out after 90 s. Other failures, such as a refused
// connection, rejected credentials, or a server that asks for a delay, have no kind.
//
// [controller.Namespaces]: https://pkg.go.dev/github.com/nslifecycle/nslifecycle/namespace/controller#Namespaces
// [pass.Namespaces]: https://pkg.go.dev/github.com/nslifecycle/nslifecycle/namespace/pass#Namespaces
// [*apierrors.StatusError]: https://pkg.go.dev/k8s.io/apimachinery/pkg/api/errors#StatusError
type Namespaces struct {
	client       corev1client.NamespaceInterface
	incarnations *incarnations
	all          atomic.Bool // the server refuses the selector for terminating namespaces
}

func newNamespaces(client corev1client.NamespaceInterface, seen *incarnations) *Namespaces {
	return &Namespaces{client: client, incarnations: seen}
}

// Get returns the current namespace (a consistent read), or [namespace.ErrNotFound]. A server that
// does not know the path of namespaces returns another error.
func (n *Namespaces) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	const doing = "read namespace"
	if err := checkNamespace(ctx, name); err != nil {
		return namespace.Namespace{}, err
	}
	began := time.Now()
	k, err := withTimeout(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
		return n.client.Get(ctx, name, metav1.GetOptions{})
	})
	if err == nil {
		err = checkAnswer(k, name, "")
	}
	if err != nil {
		return namespace.Namespace{}, requestError(doing, name, err)
	}
	n.incarnations.record(k, began)
	return fromKubernetes(k), nil
}

// UpdateStatus writes ns.Status if the namespace still has uid ns.UID and resource version
// ns.ResourceVersion. Otherwise the error matches [namespace.ErrConflict] or
// [namespace.ErrNotFound]. A namespace without uid or resource version matches
// [namespace.ErrBadRequest], since the write would be unconditional. If the response is lost, the
// error matches [namespace.ErrUnknownOutcome]: read the namespace again.
//
// The API server also takes labels, annotations, finalizers and ownerReferences of ns.Meta. They
// equal those at ns.ResourceVersion unless the caller changed them, except that duplicate
// finalizers are merged.
func (n *Namespaces) UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return n.write(ctx, "write the status of namespace", ns, n.client.UpdateStatus)
}

// Finalize writes ns.Spec.Finalizers, under the conditions and with the errors of
// [Namespaces.UpdateStatus]. If a terminating namespace then has no finalizers of either kind, the
// API server removes it in the same write (rule R1).
func (n *Namespaces) Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	written, err := n.write(ctx, "finalize namespace", ns, n.client.Finalize)
	if err == nil && namespace.Removable(written) {
		n.incarnations.void(written.Name, types.UID(written.UID))
	}
	return written, err
}

// write makes a conditional write. An API server takes an empty uid or resource version as
// unconditional.
func (n *Namespaces) write(
	ctx context.Context, doing string, ns namespace.Namespace,
	put func(context.Context, *corev1.Namespace, metav1.UpdateOptions) (*corev1.Namespace, error),
) (namespace.Namespace, error) {
	if err := checkNamespace(ctx, ns.Name); err != nil {
		return namespace.Namespace{}, err
	}
	if ns.UID == "" || ns.ResourceVersion == "" {
		return namespace.Namespace{}, badRequest(ns.Name,
			"%s %q: uid and resourceVersion are required, or the write would be unconditional", doing, ns.Name)
	}
	began := time.Now()
	k, err := withTimeout(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
		return put(ctx, toKubernetes(ns), metav1.UpdateOptions{})
	})
	if err == nil {
		err = checkAnswer(k, ns.Name, ns.UID)
	}
	if err != nil {
		return namespace.Namespace{}, writeError(doing, ns.Name, err)
	}
	n.incarnations.record(k, began) // counts as a read
	return fromKubernetes(k), nil
}

// checkAnswer returns an error unless k is the requested namespace. An empty uid means any.
// Decoders accept any JSON object as an empty namespace.
func checkAnswer(k *corev1.Namespace, name, uid string) error {
	switch {
	case k == nil || k.Name != name || k.UID == "":
		return fmt.Errorf("the response is not namespace %q with a uid", name)
	case uid != "" && string(k.UID) != uid:
		return fmt.Errorf("the response is namespace %q with uid %[3]q, not %[2]q", name, uid, k.UID)
	}
	return nil
}

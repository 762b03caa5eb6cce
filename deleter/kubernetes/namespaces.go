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

// Namespaces are the namespaces of a cluster as package controller and package
// pass want them ([controller.Namespaces], [pass.Namespaces]); [Cluster.Namespaces]
// returns them. Its methods are safe for concurrent use.
//
// Errors are [*namespace.Error] of the kind that fits, with the
// [*apierrors.StatusError] of the server within reach. An answer that does not come
// is given up after 90 s, or when the context ends. Other failures, such as a
// connection that is refused, credentials that are, or a server that asks for
// patience, have no kind.
//
// [controller.Namespaces]: https://pkg.go.dev/github.com/nslifecycle/nslifecycle/namespace/controller#Namespaces
// [pass.Namespaces]: https://pkg.go.dev/github.com/nslifecycle/nslifecycle/namespace/pass#Namespaces
// [*apierrors.StatusError]: https://pkg.go.dev/k8s.io/apimachinery/pkg/api/errors#StatusError
type Namespaces struct {
	client corev1client.NamespaceInterface
	seen   *incarnations
	all    atomic.Bool // the server cannot select the terminating ones
}

func newNamespaces(client corev1client.NamespaceInterface, seen *incarnations) *Namespaces {
	return &Namespaces{client: client, seen: seen}
}

// Get returns the namespace as it is now (a consistent read), or
// [namespace.ErrNotFound]. That is the answer only if the server knows of namespaces:
// a path that it does not know is another error.
func (n *Namespaces) Get(ctx context.Context, name string) (namespace.Namespace, error) {
	const doing = "read namespace"
	if err := checkNamespace(ctx, name); err != nil {
		return namespace.Namespace{}, err
	}
	began := time.Now()
	k, err := ask(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
		return n.client.Get(ctx, name, metav1.GetOptions{})
	})
	if err == nil {
		err = mustBe(k, name, "")
	}
	if err != nil {
		return namespace.Namespace{}, failure(doing, name, err)
	}
	n.seen.saw(k, began)
	return fromKubernetes(k), nil
}

// UpdateStatus writes ns.Status, if the namespace is still of ns.UID and at
// ns.ResourceVersion; otherwise [namespace.ErrConflict], or [namespace.ErrNotFound].
// Without both it would overwrite what others wrote, and is refused with
// [namespace.ErrBadRequest]. A write whose answer was lost is
// [namespace.ErrUnknownOutcome]: read again.
//
// The API server takes the labels, annotations, finalizers and ownerReferences of
// ns.Meta from either write too. They are those of ns.ResourceVersion unless the caller
// changed them, but that a finalizer which was listed twice is listed once then.
func (n *Namespaces) UpdateStatus(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	return n.write(ctx, "write the status of namespace", ns, n.client.UpdateStatus)
}

// Finalize writes ns.Spec.Finalizers, on the same conditions, with the same errors and
// as little else as [Namespaces.UpdateStatus]. If that leaves a terminating namespace
// without finalizers of either kind the API server removes it in the same write
// (rule R1).
func (n *Namespaces) Finalize(ctx context.Context, ns namespace.Namespace) (namespace.Namespace, error) {
	written, err := n.write(ctx, "finalize namespace", ns, n.client.Finalize)
	if err == nil && namespace.Removable(written) {
		n.seen.gone(written.Name, types.UID(written.UID))
	}
	return written, err
}

// write makes a conditional write. An API server takes an empty uid or resource
// version for "whatever is there".
func (n *Namespaces) write(
	ctx context.Context, doing string, ns namespace.Namespace,
	put func(context.Context, *corev1.Namespace, metav1.UpdateOptions) (*corev1.Namespace, error),
) (namespace.Namespace, error) {
	if err := checkNamespace(ctx, ns.Name); err != nil {
		return namespace.Namespace{}, err
	}
	if ns.UID == "" || ns.ResourceVersion == "" {
		return namespace.Namespace{}, badRequest(ns.Name,
			"%s %q: without uid and resourceVersion the write would be unconditional: write what was read", doing, ns.Name)
	}
	began := time.Now()
	k, err := ask(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
		return put(ctx, toKubernetes(ns), metav1.UpdateOptions{})
	})
	if err == nil {
		err = mustBe(k, ns.Name, ns.UID)
	}
	if err != nil {
		return namespace.Namespace{}, writeFailure(doing, ns.Name, err)
	}
	n.seen.saw(k, began) // as good as a read
	return fromKubernetes(k), nil
}

// mustBe refuses an answer that is not the namespace that was asked for, of any uid if
// that is empty: decoders make an empty one of any JSON object.
func mustBe(k *corev1.Namespace, name, uid string) error {
	switch {
	case k == nil || k.Name != name || k.UID == "":
		return fmt.Errorf("the answer is not the namespace %q with a uid", name)
	case uid != "" && string(k.UID) != uid:
		return fmt.Errorf("the answer is not the namespace %q of uid %q, but of %q", name, uid, k.UID)
	}
	return nil
}

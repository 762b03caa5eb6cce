package simulated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
)

// spaces are the namespaces.
type spaces struct {
	mu    sync.RWMutex
	named map[string]*space
	feed  feed[spaceChange]
}

// space is a namespace as stored. It is never changed, only replaced.
type space = corev1.Namespace

// spaceChange is a change of a namespace; before or after is nil if it is new or gone.
type spaceChange struct {
	before, after *space
	revision      string
}

// Namespaces returns the client of namespaces.
func (a *API) Namespaces() typed.NamespaceInterface { return namespaces{api: a} }

// namespaces is the typed client. The embedded interface is nil: other methods panic.
type namespaces struct {
	typed.NamespaceInterface
	api *API
}

var resource = schema.GroupResource{Resource: Namespaces.Name}

func (n namespaces) call(ctx context.Context, verb Verb, name string) error {
	return n.api.call(ctx, &n.api.special[0], Request{Verb: verb, Namespace: name, Name: name})
}

// Create implements [typed.NamespaceInterface]. A namespace without finalizers in its spec gets
// finalizer "kubernetes".
func (n namespaces) Create(ctx context.Context, ns *corev1.Namespace, _ metav1.CreateOptions) (*corev1.Namespace, error) {
	if err := n.call(ctx, Create, ns.Name); err != nil {
		return nil, err
	}
	s := &n.api.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named[ns.Name] != nil {
		return nil, apierrors.NewAlreadyExists(resource, ns.Name)
	}
	ns = ns.DeepCopy()
	revision := n.api.next()
	ns.UID, ns.ResourceVersion = types.UID(fmt.Sprint("ns-", revision)), decimal(revision)
	ns.CreationTimestamp, ns.Status.Phase = metav1.Now(), corev1.NamespaceActive
	if len(ns.Spec.Finalizers) == 0 {
		ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	}
	content := make(contents, len(n.api.kinds))
	for i := range content {
		content[i].feed.forgot, content[i].feed.room = revision, 256
	}
	n.api.rooms.Store(ns.Name, content)
	s.put(revision, nil, ns)
	return ns.DeepCopy(), nil
}

// put stores a namespace and notifies watchers.
func (s *spaces) put(revision uint64, before, after *space) {
	s.named[after.Name] = after
	s.feed.add(revision, spaceChange{before, after, decimal(revision)})
}

// remove removes a namespace and its content.
func (n namespaces) remove(revision uint64, before *space) {
	delete(n.api.spaces.named, before.Name)
	n.api.rooms.Delete(before.Name)
	n.api.spaces.feed.add(revision, spaceChange{before, nil, decimal(revision)})
}

// Get implements [typed.NamespaceInterface].
func (n namespaces) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	if err := n.call(ctx, Get, name); err != nil {
		return nil, err
	}
	s := &n.api.spaces
	s.mu.RLock()
	ns := s.named[name]
	s.mu.RUnlock()
	if ns == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return ns.DeepCopy(), nil
}

// Delete implements [typed.NamespaceInterface].
func (n namespaces) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := n.call(ctx, Delete, name); err != nil {
		return err
	}
	return n.change(name, func(ns *space) error {
		if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != ns.UID {
			return apierrors.NewConflict(resource, name, errors.New("the uid is another one"))
		}
		if ns.DeletionTimestamp == nil {
			now := metav1.NewTime(time.Now())
			ns.DeletionTimestamp, ns.Status.Phase = &now, corev1.NamespaceTerminating
		}
		return nil
	})
}

// UpdateStatus implements [typed.NamespaceInterface].
func (n namespaces) UpdateStatus(ctx context.Context, ns *corev1.Namespace, _ metav1.UpdateOptions) (*corev1.Namespace, error) {
	return n.update(ctx, UpdateStatus, ns, func(stored *space) {
		stored.Status = *ns.Status.DeepCopy()
	})
}

// Finalize implements [typed.NamespaceExpansion].
func (n namespaces) Finalize(ctx context.Context, ns *corev1.Namespace, _ metav1.UpdateOptions) (*corev1.Namespace, error) {
	return n.update(ctx, Finalize, ns, func(stored *space) {
		stored.Spec.Finalizers = slices.Clone(ns.Spec.Finalizers)
	})
}

// update writes a part of a namespace if its resource version is unchanged.
func (n namespaces) update(ctx context.Context, verb Verb, ns *corev1.Namespace, write func(*space)) (*corev1.Namespace, error) {
	if err := n.call(ctx, verb, ns.Name); err != nil {
		return nil, err
	}
	var written *space
	err := n.change(ns.Name, func(stored *space) error {
		if ns.UID != "" && ns.UID != stored.UID || ns.ResourceVersion != "" && ns.ResourceVersion != stored.ResourceVersion {
			return apierrors.NewConflict(resource, ns.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
		}
		write(stored)
		written = stored
		return nil
	})
	if err != nil {
		return nil, err
	}
	return written.DeepCopy(), nil
}

// change applies edit to a copy of a namespace and stores it. It removes a terminating namespace
// without finalizers.
func (n namespaces) change(name string, edit func(*space) error) error {
	s := &n.api.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.named[name]
	if before == nil {
		return apierrors.NewNotFound(resource, name)
	}
	after := before.DeepCopy()
	if err := edit(after); err != nil {
		return err
	}
	revision := n.api.next()
	after.ResourceVersion = decimal(revision)
	if after.DeletionTimestamp != nil && len(after.Spec.Finalizers)+len(after.Finalizers) == 0 {
		n.remove(revision, before)
		return nil
	}
	s.put(revision, before, after)
	return nil
}

// List implements [typed.NamespaceInterface]. The token of a page is its last name. A list at a past
// revision is refused.
func (n namespaces) List(ctx context.Context, opts metav1.ListOptions) (*corev1.NamespaceList, error) {
	if err := n.call(ctx, List, ""); err != nil {
		return nil, err
	}
	selected, err := selector(opts)
	if err != nil {
		return nil, err
	}
	s := &n.api.spaces
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := new(corev1.NamespaceList)
	list.ResourceVersion = decimal(n.api.revision.Load())
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact && opts.ResourceVersion != list.ResourceVersion {
		return nil, apierrors.NewResourceExpired("only the present is kept")
	}
	var found []*space
	for _, ns := range s.named {
		if ns.Name > opts.Continue && selected(ns) {
			found = append(found, ns)
		}
	}
	slices.SortFunc(found, func(x, y *space) int { return strings.Compare(x.Name, y.Name) })
	if opts.Limit > 0 && int64(len(found)) > opts.Limit {
		found = found[:opts.Limit]
		list.Continue = found[len(found)-1].Name
	}
	list.Items = make([]corev1.Namespace, len(found))
	for i, ns := range found {
		ns.DeepCopyInto(&list.Items[i])
	}
	return list, nil
}

// Watch implements [typed.NamespaceInterface].
func (n namespaces) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if err := n.call(ctx, Watch, ""); err != nil {
		return nil, err
	}
	selected, err := selector(opts)
	if err != nil {
		return nil, err
	}
	s := &n.api.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feed.watch(ctx, opts.ResourceVersion, &s.mu, func(c spaceChange) (watch.Event, bool) {
		before, after := c.before != nil && selected(c.before), c.after != nil && selected(c.after)
		switch {
		case after && before:
			return watch.Event{Type: watch.Modified, Object: c.after.DeepCopy()}, true
		case after:
			return watch.Event{Type: watch.Added, Object: c.after.DeepCopy()}, true
		case before:
			last := c.before.DeepCopy()
			last.ResourceVersion = c.revision
			return watch.Event{Type: watch.Deleted, Object: last}, true
		}
		return watch.Event{}, false
	})
}

// selector returns the filter of a list or watch.
func selector(opts metav1.ListOptions) (func(*space) bool, error) {
	f, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return func(ns *space) bool {
		return f.Matches(fields.Set{"metadata.name": ns.Name, "status.phase": string(ns.Status.Phase)})
	}, nil
}

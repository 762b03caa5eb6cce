package kubernetes

import (
	"context"
	"errors"
	"io"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/nslifecycle/nslifecycle/namespace"
)

var quietLog = log.New(io.Discard, "", 0)

// fakeClient is a client made of functions. Other methods panic.
type fakeClient struct {
	corev1client.NamespaceInterface
	get  func(ctx context.Context) (*corev1.Namespace, error)
	put  func(ctx context.Context, k *corev1.Namespace) (*corev1.Namespace, error)
	list func(ctx context.Context, o metav1.ListOptions) (*corev1.NamespaceList, error)
	open func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

func (f *fakeClient) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return f.get(ctx)
}

func (f *fakeClient) UpdateStatus(ctx context.Context, k *corev1.Namespace, _ metav1.UpdateOptions) (*corev1.Namespace, error) {
	return f.put(ctx, k)
}

func (f *fakeClient) Finalize(ctx context.Context, k *corev1.Namespace, _ metav1.UpdateOptions) (*corev1.Namespace, error) {
	return f.put(ctx, k)
}

func (f *fakeClient) List(ctx context.Context, o metav1.ListOptions) (*corev1.NamespaceList, error) {
	return f.list(ctx, o)
}

func (f *fakeClient) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return f.open(ctx, o)
}

// listed returns a list at a resource version.
func listed(version string, items ...*corev1.Namespace) *corev1.NamespaceList {
	l := &corev1.NamespaceList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, k := range items {
		l.Items = append(l.Items, *k)
	}
	return l
}

// named returns an active namespace.
func named(name, uid, version string, finalizers ...corev1.FinalizerName) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version},
		Spec:       corev1.NamespaceSpec{Finalizers: finalizers},
	}
}

// dying returns a terminating namespace.
func dying(name, uid, version string, finalizers ...corev1.FinalizerName) *corev1.Namespace {
	k := named(name, uid, version, finalizers...)
	at := metav1.Unix(1, 0)
	k.DeletionTimestamp = &at
	k.Status.Phase = corev1.NamespaceTerminating
	return k
}

// scripted is a watch that brings some events and then ends, or stays open.
func scripted(stays bool, events ...watch.Event) watch.Interface {
	c := make(chan watch.Event, len(events))
	for _, e := range events {
		c <- e
	}
	w := &scriptedWatch{events: c}
	if !stays {
		close(c)
		w.over = true
	}
	return w
}

type scriptedWatch struct {
	events chan watch.Event
	over   bool
}

func (w *scriptedWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *scriptedWatch) Stop() {
	if !w.over {
		w.over = true
		close(w.events)
	}
}

func event(what watch.EventType, k *corev1.Namespace) watch.Event {
	return watch.Event{Type: what, Object: k}
}

func bookmark(version string) watch.Event {
	return event(watch.Bookmark, named("", "", version))
}

// Short forms of events.
func terminatingEvent(name, uid, token string) namespace.Event {
	return namespace.Event{Type: namespace.EventPresent, Name: name, UID: uid, Token: token}
}

func removedEvent(name, uid, token string) namespace.Event {
	return namespace.Event{Type: namespace.EventAbsent, Name: name, UID: uid, Token: token}
}

func syncedEvent(token string) namespace.Event {
	return namespace.Event{Type: namespace.EventSynced, Token: token}
}

var errEnough = errors.New("the test has seen enough")

// hear returns the events and the error of a loop.
func hear(ctx context.Context, n *Namespaces, after string) (events []namespace.Event, err error) {
	for e, failed := range n.Terminating(ctx, after) {
		if failed != nil {
			return events, failed
		}
		events = append(events, e)
	}
	return events, errors.New("the loop ended without an error")
}

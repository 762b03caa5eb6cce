package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
)

// agent is the party.
type agent struct {
	finalizer  corev1.FinalizerName
	builds     builds
	number     int // of builds for each namespace
	namespaces client.NamespaceInterface
	informer   cache.SharedIndexInformer
	queue      workqueue.TypedRateLimitingInterface[string] // names of namespaces

	mu      sync.Mutex
	w       io.Writer
	log     io.Writer // failures
	trouble string    // the last reported reason why the watch fails; empty: it works
}

func newAgent(c config, connection *rest.Config, w, log io.Writer) (*agent, error) {
	core, err := client.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	own, err := openBuilds(c.data)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	a := &agent{
		finalizer:  corev1.FinalizerName(c.finalizer),
		builds:     own,
		number:     c.builds,
		namespaces: core.Namespaces(),
		queue:      workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		w:          w,
		log:        log,
	}
	a.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := a.namespaces.List(ctx, o)
			a.watched(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			stream, err := a.namespaces.Watch(ctx, o)
			a.watched(ctx, err)
			return stream, err
		},
	}, &corev1.Namespace{}, 0, nil)
	enqueue := func(object any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			a.queue.Add(name)
		}
	}
	_, err = a.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, now any) { enqueue(now) },
		DeleteFunc: enqueue,
	})
	return a, err
}

// watched reports when the API server starts to fail, fails for a different reason, or
// recovers. The informer retries with a backoff of up to a minute.
func (a *agent) watched(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsInvalid(err) {
		return // the informer lists instead
	}
	trouble := ""
	if err != nil {
		trouble = "unreachable"
		if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
			trouble = string(reason)
		}
	}
	a.mu.Lock()
	before := a.trouble
	a.trouble = trouble
	a.mu.Unlock()
	switch {
	case trouble == before:
	case trouble == "":
		a.fail("the API server answers again")
	default:
		a.fail("namespaces cannot be watched, trying again at least once a minute: %v", err)
	}
}

// workers is how many namespaces the agent deals with at the same time.
const workers = 4

// run works until ctx ends; nothing that it started runs on.
func (a *agent) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer a.builds.root.Close()
	var group sync.WaitGroup
	defer group.Wait()
	defer a.queue.ShutDown()
	defer stop()
	group.Go(func() { a.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), a.informer.HasSynced) {
		return nil // ctx ended first
	}
	a.say("watching namespaces for %s", a.finalizer)
	kept, err := a.builds.namespaces()
	if err != nil {
		return err
	}
	for _, name := range kept { // of some the end may have been missed
		a.queue.Add(name)
	}
	for range workers {
		group.Go(func() {
			for a.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

// next deals with one namespace, later again if that fails. It reports false when
// the queue is shut down.
func (a *agent) next(ctx context.Context) bool {
	name, closed := a.queue.Get()
	if closed {
		return false
	}
	defer a.queue.Done(name)
	switch err := a.sync(ctx, name); {
	case err == nil:
		a.queue.Forget(name)
	case ctx.Err() == nil:
		a.fail("%q: will try again: %v", name, err)
		a.queue.AddRateLimited(name)
	}
	return true
}

// sync does what the state of one namespace asks for.
func (a *agent) sync(ctx context.Context, name string) error {
	object, found, err := a.informer.GetStore().GetByKey(name)
	if err != nil {
		return err
	}
	if !found {
		return a.forget(name, "")
	}
	ns, ok := object.(*corev1.Namespace)
	if !ok {
		return fmt.Errorf("the cache has a %T", object)
	}
	if err := a.forget(name, ns.UID); err != nil {
		return err
	}
	switch {
	case !slices.Contains(ns.Spec.Finalizers, a.finalizer):
		return nil // not ours
	case ns.DeletionTimestamp == nil:
		return a.keep(name, ns.UID)
	default:
		return a.release(ctx, name, ns.UID)
	}
}

// keep has builds for a namespace that lives.
func (a *agent) keep(name string, uid types.UID) error {
	created, err := a.builds.fill(name, uid, a.number)
	if created > 0 {
		a.say("%q: stored %d builds", name, created)
	}
	return err
}

// release purges the builds of a namespace that is terminating, and only then takes
// the finalizer away.
func (a *agent) release(ctx context.Context, name string, uid types.UID) error {
	purged, err := a.builds.purge(name, uid)
	if err != nil {
		return err
	}
	if purged > 0 {
		a.say("%q is terminating: purged %d builds", name, purged)
	}
	return a.finalize(ctx, name, uid)
}

// finalize removes the finalizer from this incarnation of a namespace. Others change
// the same list, so a conflict is tried again on what is stored then.
func (a *agent) finalize(ctx context.Context, name string, uid types.UID) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		ns, err := a.namespaces.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		i := slices.Index(ns.Spec.Finalizers, a.finalizer)
		if ns.UID != uid || i < 0 {
			return nil
		}
		ns.Spec.Finalizers = slices.Delete(ns.Spec.Finalizers, i, i+1)
		if ns, err = a.namespaces.Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
			return err
		}
		a.say("%q: finalized, its finalizers are now %q", name, ns.Spec.Finalizers)
		return nil
	})
}

// forget purges what is kept of all incarnations of a namespace but one: they ended
// without us, by force or in another's hands.
func (a *agent) forget(name string, but types.UID) error {
	uids, err := a.builds.incarnations(name)
	for _, uid := range uids {
		if uid == but {
			continue
		}
		purged, failure := a.builds.purge(name, uid)
		if purged > 0 {
			a.say("%q: purged %d builds of one that has ended", name, purged)
		}
		err = errors.Join(err, failure)
	}
	return err
}

func (a *agent) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.w, format+"\n", args...)
}

// fail reports a failure, or the end of a failure.
func (a *agent) fail(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(a.log, "agent: "+format+"\n", args...)
}

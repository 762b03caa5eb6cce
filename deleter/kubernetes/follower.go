package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
)

const (
	// watchDuration is the requested duration of a watch. A random time of the same length is
	// added, so that watches of many clients do not end together. A watch that the server does
	// not end within a further watchGrace is dead.
	watchDuration = 5 * time.Minute
	watchGrace    = 30 * time.Second
	// shortWatch is the minimum duration of a healthy watch. A watch with events may be shorter,
	// but not two in a row. It is also the minimum delay of an error.
	shortWatch = time.Second
	// quietPeriod is the time without events after which a resumed watch counts as caught up, if
	// resource versions do not show it.
	quietPeriod = time.Second
)

var (
	errShortWatch = errors.New(opWatch + ": the server ended the watch as soon as it began")
	errDeadWatch  = errors.New(opWatch + ": the server did not end the watch in time")
)

// watch yields changes after the position until the server ends the watch. It returns errors no
// sooner than shortWatch after the start of the watch. Without this delay its caller could spin:
// each new listing looks like progress, which resets the caller's backoff.
func (f *follower) watch(ctx context.Context) error {
	began := time.Now()
	err := f.watchOnce(ctx)
	if err == nil || err == errStopped {
		return err
	}
	if ended := backoff.Sleep(ctx, shortWatch-time.Since(began)); ended != nil {
		return ended
	}
	return err
}

// watchOnce is watch without the delay of errors.
func (f *follower) watchOnce(ctx context.Context) error {
	began, from := time.Now(), f.position
	lasts := watchDuration + rand.N(watchDuration)
	within, stop := context.WithTimeoutCause(ctx, lasts+watchGrace, errDeadWatch)
	defer stop()
	within, cancel := context.WithCancelCause(within)
	defer cancel(nil)
	w, err := f.openWatch(within, cancel, lasts)
	if err != nil {
		return err
	}
	defer func() {
		cancel(nil) // unblocks the watch
		stopWatch(w)
	}()
	if err := f.findSyncTarget(ctx); err != nil {
		return err
	}
	if err := f.events(within, w); err != nil && err != errDeadWatch {
		return err
	}
	return f.ended(from, time.Since(began))
}

// ended is called when the server has ended a watch. It returns nil if the next one may start at
// once. An error ends the loop, and the caller decides when to resume.
func (f *follower) ended(from string, lasted time.Duration) error {
	if f.position == "" {
		return goneError("the server sends no resource versions to resume the watch from: list again", nil)
	}
	if lasted >= shortWatch {
		f.shortBefore = false
		return nil
	}
	if f.shortBefore || f.position == from {
		return errShortWatch
	}
	f.shortBefore = true
	return nil
}

// openWatch starts a watch, without the selector if the server refuses that. The watch lives until
// ctx ends. cancel ends it if the server does not respond.
func (f *follower) openWatch(ctx context.Context, cancel context.CancelCauseFunc, lasts time.Duration) (watch.Interface, error) {
	seconds := int64(lasts / time.Second)
	o := metav1.ListOptions{
		FieldSelector: f.selector(), ResourceVersion: f.position, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	}
	w, err := f.startWatch(ctx, cancel, o)
	if o.FieldSelector != "" && isRefused(err) { // even if it accepted the selector for a list
		o.FieldSelector = ""
		if plain, plainErr := f.startWatch(ctx, cancel, o); plainErr == nil {
			f.all.Store(true)
			return plain, nil
		}
	}
	if err != nil {
		return nil, requestError(opWatch, "", err)
	}
	return w, nil
}

func (f *follower) startWatch(ctx context.Context, cancel context.CancelCauseFunc, o metav1.ListOptions) (watch.Interface, error) {
	silent := time.AfterFunc(requestTimeout, func() { cancel(errTimeout) })
	defer silent.Stop()
	w, err := f.client.Watch(ctx, o)
	return w, clientError(ctx, err)
}

// findSyncTarget sets the position at which a resumed watch has caught up. It also detects a
// server that went back, for example by a restore from a backup: such a server sends nothing until
// it reaches the position again.
func (f *follower) findSyncTarget(ctx context.Context) error {
	if f.listed {
		f.listed = false
		return nil
	}
	list, err := f.read(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return requestError(opWatch, "", err)
	}
	if beyond(f.position, list.ResourceVersion) {
		return goneError("the server is at an earlier resource version: list again", nil)
	}
	if f.synced || f.syncTarget != "" {
		return nil
	}
	f.syncTarget = list.ResourceVersion
	return f.checkSynced()
}

// events handles the events of w until it ends.
func (f *follower) events(ctx context.Context, w watch.Interface) error {
	for ctx.Err() == nil {
		var quiet <-chan time.Time
		if !f.synced {
			quiet = time.After(quietPeriod)
		}
		select {
		case <-ctx.Done():
		case <-quiet:
			if err := f.sync(); err != nil {
				return err
			}
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if err := f.handle(event); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

func (f *follower) handle(event watch.Event) error {
	if event.Type == watch.Error {
		return requestError(opWatch, "", apierrors.FromObject(event.Object))
	}
	k, ok := event.Object.(*corev1.Namespace)
	if !ok || k == nil {
		return fmt.Errorf("%s: event %q has a %T, not a namespace", opWatch, event.Type, event.Object)
	}
	switch event.Type {
	case watch.Bookmark:
		f.advance(k)
		if f.synced {
			return f.sync()
		}
		return f.checkSynced()
	case watch.Added, watch.Modified:
		if err := f.update(k); err != nil {
			return err
		}
	case watch.Deleted:
		if known, was := f.known[k.Name]; was && known.uid == k.UID {
			if err := f.removed(k.Name, k.ResourceVersion); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%s: unknown event type %q", opWatch, event.Type)
	}
	f.advance(k)
	return f.checkSynced()
}

// update handles the current state of a namespace.
func (f *follower) update(k *corev1.Namespace) error {
	before, was := f.known[k.Name]
	terminates := k.DeletionTimestamp != nil
	if was && (before.uid != k.UID || !terminates) {
		token := k.ResourceVersion
		if terminates {
			token = "" // another event follows
		}
		if err := f.removed(k.Name, token); err != nil {
			return err
		}
		was = false
	}
	if !terminates {
		return nil
	}
	finalizers := setOf(k.Spec.Finalizers)
	if added, _ := before.finalizers.Diff(finalizers); was && len(added) == 0 {
		f.known[k.Name] = knownNamespace{k.UID, finalizers}
		return nil
	}
	return f.terminating(k, k.ResourceVersion)
}

func (f *follower) terminating(k *corev1.Namespace, token string) error {
	f.known[k.Name] = knownNamespace{k.UID, setOf(k.Spec.Finalizers)}
	f.incarnations.record(k, time.Time{})
	return f.emit(namespace.EventPresent, k.Name, k.UID, token)
}

// removed handles the removal of a known namespace.
func (f *follower) removed(name, token string) error {
	uid := f.known[name].uid
	delete(f.known, name)
	f.incarnations.void(name, uid)
	return f.emit(namespace.EventAbsent, name, uid, token)
}

// advance advances the position.
func (f *follower) advance(k *corev1.Namespace) {
	if k.ResourceVersion != "" {
		f.position = k.ResourceVersion
	}
}

// checkSynced emits EventSynced when a resumed watch has reached syncTarget.
func (f *follower) checkSynced() error {
	if f.synced || !reached(f.position, f.syncTarget) {
		return nil
	}
	return f.sync()
}

func reached(position, reference string) bool {
	return position == reference || beyond(position, reference)
}

// beyond reports whether a resource version is later than another. It returns false if they cannot
// be compared.
func beyond(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order > 0
}

// sync emits EventSynced.
func (f *follower) sync() error {
	f.synced = true
	return f.emit(namespace.EventSynced, "", "", f.position)
}

func (f *follower) emit(kind namespace.EventType, name string, uid types.UID, token string) error {
	if !f.yield(namespace.Event{Type: kind, Name: name, UID: string(uid), Token: token}, nil) {
		return errStopped
	}
	return nil
}

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
	// watchFor is how long a watch lasts, and up to as much again, so that those of
	// many clients do not end together. One that the server does not end is dead after
	// watchGrace more.
	watchFor   = 5 * time.Minute
	watchGrace = 30 * time.Second
	// shortWatch is how long a watch lasts at least, unless something is wrong. One
	// that brought something may be shorter, but not two in a row. Nor is an error
	// told before.
	shortWatch = time.Second
	// silence is how long nothing must come until a resumed watch counts as caught up
	// where resource versions do not say so.
	silence = time.Second
)

var (
	errShort = errors.New(watching + ": the server ended the watch as soon as it began")
	errDead  = errors.New(watching + ": the server did not end the watch in time")
)

// watch tells what happens after the position until the server ends the watch. An
// error is told no sooner than shortWatch after the watch began: to a caller that has
// listed anew, or resumed at an idle server and so caught up at once, the loop seems
// to have got on, so that it may begin its backoff anew each time.
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

// watchOnce is watch whose errors are told at once.
func (f *follower) watchOnce(ctx context.Context) error {
	began, from := time.Now(), f.position
	lasts := watchFor + rand.N(watchFor)
	within, stop := context.WithTimeoutCause(ctx, lasts+watchGrace, errDead)
	defer stop()
	within, cancel := context.WithCancelCause(within)
	defer cancel(nil)
	w, err := f.open(within, cancel, lasts)
	if err != nil {
		return err
	}
	defer func() {
		cancel(nil) // ends whatever the watch waits for
		stopWatch(w)
	}()
	if err := f.refer(ctx); err != nil {
		return err
	}
	if err := f.events(within, w); err != nil && err != errDead {
		return err
	}
	return f.ended(from, time.Since(began))
}

// ended reports whether a watch that the server ended may be followed by another at
// once; if not, it is the caller who goes on.
func (f *follower) ended(from string, lasted time.Duration) error {
	if f.position == "" {
		return gone("the server gives no resource versions to resume a watch at: list anew", nil)
	}
	if lasted >= shortWatch {
		f.hasty = false
		return nil
	}
	if f.hasty || f.position == from {
		return errShort
	}
	f.hasty = true
	return nil
}

// open begins a watch; without the selector if the server refuses that. The watch
// lives in ctx, and cancel ends it if the server does not answer.
func (f *follower) open(ctx context.Context, cancel context.CancelCauseFunc, lasts time.Duration) (watch.Interface, error) {
	seconds := int64(lasts / time.Second)
	o := metav1.ListOptions{
		FieldSelector: f.selector(), ResourceVersion: f.position, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	}
	w, err := f.begin(ctx, cancel, o)
	if o.FieldSelector != "" && refused(err) { // what a list may select a watch need not
		o.FieldSelector = ""
		if plain, plainErr := f.begin(ctx, cancel, o); plainErr == nil {
			f.all.Store(true)
			return plain, nil
		}
	}
	if err != nil {
		return nil, failure(watching, "", err)
	}
	return w, nil
}

func (f *follower) begin(ctx context.Context, cancel context.CancelCauseFunc, o metav1.ListOptions) (watch.Interface, error) {
	silent := time.AfterFunc(answerWithin, func() { cancel(errSilent) })
	defer silent.Stop()
	w, err := f.client.Watch(ctx, o)
	if err == nil && w == nil {
		err = errNoAnswer
	}
	return w, explain(ctx, err)
}

// refer finds out what a resumed watch has to reach to be caught up, and whether the
// server has gone back, such as by the restore of a backup: then it sends nothing
// until it has come to the position once more.
func (f *follower) refer(ctx context.Context) error {
	if f.listed {
		f.listed = false
		return nil
	}
	list, err := f.read(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return failure(watching, "", err)
	}
	if beyond(f.position, list.ResourceVersion) {
		return gone("the server has gone back: list anew", nil)
	}
	if f.synced || f.reference != "" {
		return nil
	}
	f.reference = list.ResourceVersion
	return f.catchUp()
}

// events tells what w brings until it ends.
func (f *follower) events(ctx context.Context, w watch.Interface) error {
	for ctx.Err() == nil {
		var quiet <-chan time.Time
		if !f.synced {
			quiet = time.After(silence)
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
			if err := f.take(event); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// take takes up an event of the watch.
func (f *follower) take(event watch.Event) error {
	if event.Type == watch.Error {
		return failure(watching, "", apierrors.FromObject(event.Object))
	}
	k, ok := event.Object.(*corev1.Namespace)
	if !ok || k == nil {
		return fmt.Errorf("%s: an event %q has no namespace but a %T", watching, event.Type, event.Object)
	}
	switch event.Type {
	case watch.Bookmark:
		f.move(k)
		if f.synced {
			return f.sync()
		}
		return f.catchUp()
	case watch.Added, watch.Modified:
		if err := f.changed(k); err != nil {
			return err
		}
	case watch.Deleted:
		if known, was := f.known[k.Name]; was && known.uid == k.UID {
			if err := f.removed(k.Name, k.ResourceVersion); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%s: there is no event of type %q", watching, event.Type)
	}
	f.move(k)
	return f.catchUp()
}

// changed takes up a namespace as it is now.
func (f *follower) changed(k *corev1.Namespace) error {
	before, was := f.known[k.Name]
	terminates := k.DeletionTimestamp != nil
	if was && (before.uid != k.UID || !terminates) {
		token := k.ResourceVersion
		if terminates {
			token = "" // there is another event to come
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
		f.known[k.Name] = held{k.UID, finalizers}
		return nil
	}
	return f.terminating(k, k.ResourceVersion)
}

func (f *follower) terminating(k *corev1.Namespace, token string) error {
	f.known[k.Name] = held{k.UID, setOf(k.Spec.Finalizers)}
	f.seen.saw(k, time.Time{})
	return f.tell(namespace.EventTerminating, k.Name, k.UID, token)
}

// removed takes up that what was known under a name is gone.
func (f *follower) removed(name, token string) error {
	uid := f.known[name].uid
	delete(f.known, name)
	f.seen.gone(name, uid)
	return f.tell(namespace.EventRemoved, name, uid, token)
}

// move takes up how far the watch has come.
func (f *follower) move(k *corev1.Namespace) {
	if k.ResourceVersion != "" {
		f.position = k.ResourceVersion
	}
}

// catchUp tells when a resumed watch has reached what it has to.
func (f *follower) catchUp() error {
	if f.synced || !reached(f.position, f.reference) {
		return nil
	}
	return f.sync()
}

func reached(position, reference string) bool {
	return position == reference || beyond(position, reference)
}

// beyond reports whether a resource version is later than another; false if they have no
// order.
func beyond(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order > 0
}

// sync tells that everything up to the position was told.
func (f *follower) sync() error {
	f.synced = true
	return f.tell(namespace.EventSynced, "", "", f.position)
}

func (f *follower) tell(what namespace.TerminationEventType, name string, uid types.UID, token string) error {
	if !f.yield(namespace.TerminationEvent{Type: what, Name: name, UID: string(uid), Token: token}, nil) {
		return errStopped
	}
	return nil
}

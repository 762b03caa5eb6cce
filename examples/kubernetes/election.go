package main

import (
	"context"
	"errors"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// elected leads as long and as often as the lease is this replica's, until ctx ends.
func (a *agent) elected(ctx context.Context) error {
	lock, err := a.lock()
	if err != nil {
		return err
	}
	a.say("replica %s stands for the lease %s", lock.Identity(), lock.Describe())
	for ctx.Err() == nil {
		if err := a.term(ctx, lock); err != nil {
			return err
		}
	}
	return nil
}

// term stands for the lease until it was had and lost, or ctx ends. The lease is given
// up only when the work has stopped, so that no two replicas work at a time; and if two
// did, for a clock that stood still, it would only be work done twice (rule R11).
func (a *agent) term(ctx context.Context, lock *lock) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	lock.stop = stop
	began := make(chan context.Context, 1)
	elector, err := lock.elector(func(leading context.Context) { began <- leading })
	if err != nil {
		return err
	}
	standing, withdraw := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(standing)
	}()
	defer func() {
		withdraw()
		<-ended
		lock.release(ctx)
	}()
	select {
	case leading := <-began:
		defer context.AfterFunc(leading, stop)()
		return a.leadWhile(ctx, work)
	case <-ended: // lost before it began
	case <-work.Done():
	}
	return nil
}

// leadWhile leads until work ends: because ctx does, or the lease is lost.
func (a *agent) leadWhile(ctx, work context.Context) error {
	a.say("leading")
	err := a.lead(work)
	if ctx.Err() == nil {
		a.ready.set("the lease is lost")
		a.say("the lease is lost: stopped, standing for it again")
	}
	return err
}

// lock is the lease. It tells what goes wrong with it and who has it, since the
// election itself only logs, and ends the work of a leader in time. One goroutine uses
// it at a time: that of the election while one runs.
type lock struct {
	resourcelock.Interface
	agent    *agent
	duration time.Duration // of the lease
	deadline time.Duration // for all tries of one renewal, and for the release
	retry    time.Duration // between tries
	told     string        // what was said last; empty: nothing that matters
	lame     bool          // the last write or read failed
	written  bool          // a write was tried: the lease may be this replica's
	stop     func()        // ends the work of this term
	end      *time.Timer   // calls stop before the lease ends; nil: not held in this term
}

// lock makes the lease, with connections of its own: the work must not delay it.
func (a *agent) lock() (*lock, error) {
	l := a.config.lease
	made := &lock{agent: a, duration: l.duration, deadline: l.duration * 2 / 3, retry: l.duration * 2 / 15}
	connection := rest.CopyConfig(a.connection)
	connection.QPS = -1
	connection.Timeout = made.deadline / 2
	if connection.Dial == nil { // client-go shares connections where nobody says how to dial
		connection.Dial = (&net.Dialer{Timeout: connection.Timeout}).DialContext
	}
	client, err := coordination.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	made.Interface = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.namespace, Name: l.name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.identity},
	}
	return made, nil
}

// elector takes part in one election. It does not release the lease: it would before
// the work has stopped, and judge by an old record whose the lease is.
func (l *lock) elector(began func(context.Context)) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          l.Describe(),
		Lock:          l,
		LeaseDuration: l.duration,
		RenewDeadline: l.deadline,
		RetryPeriod:   l.retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: began,
			OnStoppedLeading: func() {},
		},
	})
}

// release ends a term, whose work has stopped and whose election is over: it gives the
// lease up if it is this replica's still.
func (l *lock) release(ctx context.Context) {
	if l.end != nil {
		l.end.Stop()
		l.end = nil
	}
	if !l.written {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.deadline)
	defer cancel()
	record, _, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity == l.Identity() {
		now := metav1.Now()
		record.HolderIdentity, record.LeaseDurationSeconds = "", 1
		record.AcquireTime, record.RenewTime = now, now
		err = l.Interface.Update(ctx, *record) // of what was read, or it conflicts
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		l.agent.say("the lease could not be given up, it ends by itself: %s", explain(err))
		return
	}
	l.written = false
}

// Get implements [resourcelock.Interface].
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case apierrors.IsNotFound(err): // it will be created
	case err != nil:
		l.failed(ctx, err, "")
	case record.HolderIdentity == "" || record.HolderIdentity == l.Identity():
	case l.end != nil: // not any more
		l.stop()
	default:
		l.agent.ready.set("") // for its turn
		l.tell("standing by: " + record.HolderIdentity + " leads")
	}
	return record, raw, err
}

// Create implements [resourcelock.Interface].
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.written = true
	asked := time.Now()
	err := l.Interface.Create(ctx, record)
	switch {
	case err == nil:
		l.well(asked)
	case apierrors.IsNotFound(err):
		l.failed(ctx, err, " (create that namespace, or name another by --lease-namespace)")
	case !apierrors.IsAlreadyExists(err):
		l.failed(ctx, err, "")
	}
	return err
}

// Update implements [resourcelock.Interface].
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.written = true
	asked := time.Now()
	err := l.Interface.Update(ctx, record)
	switch {
	case err == nil:
		l.well(asked)
	case !apierrors.IsConflict(err):
		l.failed(ctx, err, "")
	}
	return err
}

// well takes up that the lease is this replica's, by a write that began at asked. No
// other replica takes it sooner than its duration later, and by then the work has had
// the time of a retry to stop. The election alone would count from the answer, which
// may come late.
func (l *lock) well(asked time.Time) {
	left := time.Until(asked.Add(l.duration - l.retry))
	if l.end == nil {
		l.end = time.AfterFunc(left, l.stop)
	} else {
		l.end.Reset(left)
		if l.lame {
			l.agent.say("the lease is held again")
		}
	}
	l.told, l.lame = "", false
}

func (l *lock) failed(ctx context.Context, err error, advice string) {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	l.lame = true
	text := "the lease cannot be had, will try again: " + explain(err) + advice
	if l.end == nil {
		l.agent.ready.set(text)
	}
	if alike(text) != alike(l.told) {
		l.tell(text)
	}
}

func (l *lock) tell(text string) {
	if text != l.told {
		l.agent.say("%s", text)
	}
	l.told = text
}

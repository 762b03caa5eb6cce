package agent

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
	"k8s.io/client-go/util/retry"
)

// elect competes for the lease and leads whenever this replica holds it, until ctx ends.
func (a *Agent) elect(ctx context.Context) error {
	lock, err := a.lock()
	if err != nil {
		return err
	}
	a.report("replica %s competes for lease %s", lock.Identity(), lock.Describe())
	for ctx.Err() == nil {
		if err := a.term(ctx, lock); err != nil {
			return err
		}
	}
	return nil
}

// term competes for the lease, leads, and returns when the lease is lost or ctx ends. It releases
// the lease only after the work has stopped, so that one replica works at a time. If two replicas
// work at once, for example because a clock stood still, they only duplicate work (rule R11).
func (a *Agent) term(ctx context.Context, lock *lock) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	lock.stop = stop
	began := make(chan context.Context, 1)
	elector, err := lock.elector(func(leading context.Context) { began <- leading })
	if err != nil {
		return err
	}
	competing, withdraw := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(competing)
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
	case <-ended: // lost before the work began
	case <-work.Done():
	}
	return nil
}

// leadWhile leads until work ends, which means that ctx ends or the lease is lost.
func (a *Agent) leadWhile(ctx, work context.Context) error {
	a.report("leading")
	err := a.lead(work)
	if ctx.Err() == nil {
		a.ready.set("lost the lease")
		a.report("lost the lease: stopped work, competing for it again")
	}
	return err
}

// lock wraps the lease for client-go's election. It reports failures and the current holder,
// which the election only logs, and stops the work of a leader before the lease expires. Only one
// goroutine uses it at a time.
type lock struct {
	resourcelock.Interface
	agent    *Agent
	duration time.Duration // of the lease
	deadline time.Duration // for all attempts of one renewal, and for the release
	retry    time.Duration // between attempts
	reported string        // the last line reported, empty after a renewal
	failing  bool          // the last request failed
	written  bool          // a write was attempted: this replica may hold the lease
	stop     func()        // stops the work of this term
	expiry   *time.Timer   // calls stop before the lease expires; nil: not held in this term
}

// lock returns the lock. It has its own connections, so that work cannot delay renewals.
func (a *Agent) lock() (*lock, error) {
	l := a.config.Lease
	lock := &lock{agent: a, duration: l.Duration, deadline: l.Duration * 2 / 3, retry: l.Duration * 2 / 15}
	connection := rest.CopyConfig(a.connection)
	connection.QPS = -1
	connection.Timeout = lock.deadline / 2
	if connection.Dial == nil { // without a dialer of their own, clients share connections
		connection.Dial = (&net.Dialer{Timeout: connection.Timeout}).DialContext
	}
	client, err := coordination.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	lock.Interface = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
	}
	return lock, nil
}

// elector returns an elector for one term. It does not release the lease: it would do so before
// the work has stopped, and based on an old record. See [lock.release].
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

// release ends a term after its work and its election have stopped: it releases the lease if
// this replica still holds it.
func (l *lock) release(ctx context.Context) {
	if l.expiry != nil {
		l.expiry.Stop()
		l.expiry = nil
	}
	if !l.written {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.deadline)
	defer cancel()
	// A conflict is a write of another replica, which the next read shows, or a renewal of this
	// one that was canceled and reached the server late.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		record, _, err := l.Interface.Get(ctx)
		if err != nil || record.HolderIdentity != l.Identity() {
			return err
		}
		now := metav1.Now()
		record.HolderIdentity, record.LeaseDurationSeconds = "", 1
		record.AcquireTime, record.RenewTime = now, now
		return l.Interface.Update(ctx, *record)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		l.agent.report("cannot release the lease, it will expire: %s", describe(err))
		return
	}
	l.written = false
}

// Get implements [resourcelock.Interface].
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case apierrors.IsNotFound(err): // the election creates it
	case err != nil:
		l.failed(ctx, err, "")
	case record.HolderIdentity == "" || record.HolderIdentity == l.Identity():
	case l.expiry != nil: // lost
		l.stop()
	default:
		l.agent.ready.set("") // to take over
		l.report("standing by: " + record.HolderIdentity + " leads")
	}
	return record, raw, err
}

// Create implements [resourcelock.Interface].
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.written = true
	sent := time.Now()
	err := l.Interface.Create(ctx, record)
	switch {
	case err == nil:
		l.renewed(sent)
	case apierrors.IsNotFound(err):
		l.failed(ctx, err, " (create this namespace, or set another one with --lease-namespace)")
	case !apierrors.IsAlreadyExists(err):
		l.failed(ctx, err, "")
	}
	return err
}

// Update implements [resourcelock.Interface].
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.written = true
	sent := time.Now()
	err := l.Interface.Update(ctx, record)
	switch {
	case err == nil:
		l.renewed(sent)
	case !apierrors.IsConflict(err):
		l.failed(ctx, err, "")
	}
	return err
}

// renewed records that this replica holds the lease, by a write sent at the given time. No other
// replica takes the lease before its duration has passed since then. stop is called one retry
// earlier, which leaves the work time to stop. (The election counts from the response, which may
// come late.)
func (l *lock) renewed(sent time.Time) {
	left := time.Until(sent.Add(l.duration - l.retry))
	if l.expiry == nil {
		l.expiry = time.AfterFunc(left, l.stop)
	} else {
		l.expiry.Reset(left)
		if l.failing {
			l.agent.report("renewed the lease again")
		}
	}
	l.reported, l.failing = "", false
}

func (l *lock) failed(ctx context.Context, err error, advice string) {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	l.failing = true
	text := "cannot get or renew the lease, retrying: " + describe(err) + advice
	if l.expiry == nil {
		l.agent.ready.set(text)
	}
	if withoutDigits(text) != withoutDigits(l.reported) {
		l.report(text)
	}
}

// report reports a line unless it was the last one reported.
func (l *lock) report(text string) {
	if text != l.reported {
		l.agent.report("%s", text)
	}
	l.reported = text
}

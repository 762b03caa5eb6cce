package main

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// elected leads as long and as often as the lease is this replica's, until ctx ends.
func (a *agent) elected(ctx context.Context) error {
	l := a.config.lease
	a.say("replica %s stands for the lease %s/%s", l.identity, l.namespace, l.name)
	for ctx.Err() == nil {
		if err := a.term(ctx); err != nil {
			return err
		}
	}
	return nil
}

// term stands for the lease until it was had and lost, or ctx ends. The lease is given
// up only when the work has stopped, so that no two replicas work at a time; and if two
// did, for a clock that stood still, it would only be work done twice (rule R11).
func (a *agent) term(ctx context.Context) error {
	began := make(chan context.Context, 1)
	elector, err := a.elector(func(leading context.Context) { began <- leading })
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
	}()
	select {
	case leading := <-began:
		return a.leadWhile(ctx, leading)
	case <-ended: // lost before it began
	case <-ctx.Done():
	}
	return nil
}

// leadWhile leads until either context ends.
func (a *agent) leadWhile(ctx, leading context.Context) error {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(leading, cancel)()
	a.say("leading")
	err := a.lead(work)
	if ctx.Err() == nil {
		a.ready.set("the lease is lost")
		a.say("the lease is lost: stopped, standing for it again")
	}
	return err
}

// elector takes part in one election, with connections of its own: the work must not
// delay the lease.
func (a *agent) elector(began func(context.Context)) (*leaderelection.LeaderElector, error) {
	l := a.config.lease
	deadline := l.duration * 2 / 3
	connection := rest.CopyConfig(a.connection)
	connection.QPS = -1
	connection.Timeout = deadline / 2
	client, err := coordination.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	lock := &lock{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.namespace, Name: l.name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.identity},
	}, agent: a}
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:            l.name,
		Lock:            lock,
		LeaseDuration:   l.duration,
		RenewDeadline:   deadline,
		RetryPeriod:     l.duration * 2 / 15,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: began,
			OnStoppedLeading: func() {},
		},
	})
}

// lock is the lease, and tells what goes wrong with it and who has it: the election
// itself only logs.
type lock struct {
	resourcelock.Interface
	agent *agent
	told  string // what was said last; empty: nothing that matters
	lame  bool   // the last write or read failed
}

// Get implements [resourcelock.Interface].
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case apierrors.IsNotFound(err): // it will be created
	case err != nil:
		l.failed(ctx, err, "")
	case record.HolderIdentity != "" && record.HolderIdentity != l.Identity():
		l.agent.ready.set("") // for its turn
		l.tell("standing by: " + record.HolderIdentity + " leads")
	}
	return record, raw, err
}

// Create implements [resourcelock.Interface].
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	switch {
	case err == nil:
		l.well()
	case apierrors.IsNotFound(err):
		l.failed(ctx, err, " (create that namespace, or name another by --lease-namespace)")
	case !apierrors.IsAlreadyExists(err):
		l.failed(ctx, err, "")
	}
	return err
}

// Update implements [resourcelock.Interface].
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	switch {
	case err == nil:
		l.well()
	case !apierrors.IsConflict(err):
		l.failed(ctx, err, "")
	}
	return err
}

// well takes up that the lease is this replica's.
func (l *lock) well() {
	if l.lame && l.agent.leading.Load() {
		l.agent.say("the lease is held again")
	}
	l.told, l.lame = "", false
}

func (l *lock) failed(ctx context.Context, err error, advice string) {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	l.lame = true
	text := "the lease cannot be had, will try again: " + explain(err) + advice
	if !l.agent.leading.Load() {
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

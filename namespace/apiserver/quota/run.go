package quota

import (
	"context"
	"errors"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// RunOptions tunes [Run]. Zero fields, and a nil *RunOptions, take the defaults;
// negative ones are [namespace.ErrInvalid].
type RunOptions struct {
	// Recount is how often all quotas of all namespaces are counted anew, so that what
	// was written past the plug-in is found; default: never.
	Recount time.Duration
	// Changed is told what was counted or repaired in a namespace; default: nobody is.
	Changed func(ns string, changes []Change)
	// Failed is told what could not be; it is tried again. Default: nobody is.
	Failed func(err error)
}

// The delays between attempts after a failure.
const (
	minDelay = 50 * time.Millisecond
	maxDelay = 30 * time.Second
)

// Run has quotas counted as soon as they are created, or count something more, in
// all namespaces, until ctx ends; then it returns nil. What it does not come to is
// counted by the write that needs it: Run makes status.used complete, never more
// exact. Any number of processes may run it. On a registry without the plug-in it
// fails with [ErrNotInstalled] at the first quota.
func Run(ctx context.Context, r *registry.Registry, o *RunOptions) error {
	if r == nil {
		return &namespace.Error{Kind: namespace.ErrInvalid, Message: "quota: the registry is nil"}
	}
	run := runner{registry: r}
	if o != nil {
		run.RunOptions = *o
	}
	if run.Recount < 0 {
		return &namespace.Error{Kind: namespace.ErrInvalid, Message: "quota: option Recount is negative"}
	}
	content, err := r.Content(Resource)
	if err != nil {
		return err
	}
	run.content = content
	delay := minDelay
	for {
		began := time.Now()
		err := run.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			delay = minDelay
			continue
		case errors.Is(err, ErrNotInstalled), errors.Is(err, registry.ErrClosed):
			return err
		case run.Failed != nil && !errors.Is(err, namespace.ErrGone):
			run.Failed(err)
		}
		if delay = min(2*delay, maxDelay); time.Since(began) > maxDelay {
			delay = minDelay
		}
		if backoff.Sleep(ctx, delay) != nil {
			return nil
		}
	}
}

type runner struct {
	RunOptions
	registry *registry.Registry
	content  *registry.Content
	last     time.Time // of the last count of everything
}

// follow counts what is there, then what comes, until a watch or a count fails, or
// another count of everything is due.
func (r *runner) follow(ctx context.Context) error {
	list, err := r.content.List(ctx, "", registry.ListOptions{})
	if err != nil {
		return err
	}
	all := r.last.IsZero() || r.Recount > 0 && time.Since(r.last) >= r.Recount
	done := map[string]bool{}
	for _, o := range list.Items {
		if !done[o.Namespace] && (all && r.Recount > 0 || lacking(o)) {
			done[o.Namespace] = true
			if err := r.count(ctx, o.Namespace, !all || r.Recount == 0); err != nil {
				return err
			}
		}
	}
	if all {
		r.last = time.Now()
	}
	if r.Recount > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, r.last.Add(r.Recount), errDue)
		defer cancel()
	}
	for event, err := range r.content.Watch(ctx, "", registry.WatchOptions{ResourceVersion: list.ResourceVersion, Shared: true}) {
		switch {
		case errors.Is(err, errDue):
			return nil
		case err != nil:
			return err
		}
		if (event.Type == registry.Added || event.Type == registry.Modified) && lacking(event.Object) {
			if err := r.count(ctx, event.Object.Namespace, true); err != nil && !errors.Is(err, errDue) {
				return err
			}
		}
	}
	if errors.Is(context.Cause(ctx), errDue) {
		return nil
	}
	return errEnded
}

var (
	errDue   = errors.New("a count of everything is due")
	errEnded = errors.New("quota: the watch of the quotas ended")
)

func (r *runner) count(ctx context.Context, ns string, missing bool) error {
	changes, err := recount(ctx, r.registry, ns, missing)
	if len(changes) > 0 && r.Changed != nil {
		r.Changed(ns, changes)
	}
	return err
}

// lacking reports whether a quota limits something that it has no figure of.
func lacking(o registry.Object) bool {
	s, _ := (&plugin{any: true}).read(&o)
	return o.DeletionTimestamp.IsZero() && len(s.used) < len(s.hard)
}

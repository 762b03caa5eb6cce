package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/backoff"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// RunOptions are the options of [Run]. Zero fields and a nil *RunOptions mean the defaults.
type RunOptions struct {
	// Recount is the interval between recounts of all quotas in all namespaces. Recounts find
	// writes that bypassed the plug-in. Default: never.
	Recount time.Duration
	// Changed receives the figures that Run set in a namespace. May be nil.
	Changed func(ns string, changes []Change)
	// Failed receives the errors of failed attempts. Run retries them. May be nil.
	Failed func(err error)
}

var retry = backoff.Exponential{Min: 100 * time.Millisecond, Max: 30 * time.Second}

// Run counts the missing figures of created and updated quotas in all namespaces until ctx ends,
// then returns nil. It makes status.used complete sooner; the write that needs a missing figure
// counts it in any case. Any number of processes may call Run. On a registry without the plug-in it
// returns [ErrNotInstalled] at the first quota.
func Run(ctx context.Context, r *registry.Registry, o *RunOptions) error {
	run := runner{registry: r}
	if o != nil {
		run.RunOptions = *o
	}
	if run.Recount < 0 {
		return fmt.Errorf("quota: RunOptions.Recount is %v: it must not be negative", run.Recount)
	}
	content, err := r.Content(Resource)
	if err != nil {
		return err
	}
	run.content = content
	failures := 0
	for {
		began := time.Now()
		err := run.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errDue):
			failures = 0
			continue
		case errors.Is(err, ErrNotInstalled), errors.Is(err, registry.ErrClosed):
			return err
		case run.Failed != nil && !errors.Is(err, namespace.ErrGone):
			run.Failed(err)
		}
		if time.Since(began) > retry.Max {
			failures = 0
		}
		if backoff.Sleep(ctx, retry.Delay(failures)) != nil {
			return nil
		}
		failures++
	}
}

type runner struct {
	RunOptions
	registry *registry.Registry
	content  *registry.Content
	last     time.Time // of the last recount of all quotas
}

var errDue = errors.New("a recount of all quotas is due")

// follow counts the figures of existing quotas, then of new and updated ones. It returns errDue when
// the next recount of all quotas is due, or the error of a list, watch or count.
func (r *runner) follow(ctx context.Context) error {
	list, err := r.content.List(ctx, "", registry.ListOptions{})
	if err != nil {
		return err
	}
	due := r.Recount > 0 && time.Since(r.last) >= r.Recount
	done := map[string]bool{}
	for _, o := range list.Items {
		if !done[o.Namespace] && (due || incomplete(o)) {
			done[o.Namespace] = true
			if err := r.count(ctx, o.Namespace, !due); err != nil {
				return err
			}
		}
	}
	if due {
		r.last = time.Now()
	}
	if r.Recount > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, r.last.Add(r.Recount), errDue)
		defer cancel()
	}
	for event, err := range r.content.Watch(ctx, "", registry.WatchOptions{ResourceVersion: list.ResourceVersion, Shared: true}) {
		if err != nil {
			return err
		}
		if (event.Type == registry.Added || event.Type == registry.Modified) && incomplete(event.Object) {
			if err := r.count(ctx, event.Object.Namespace, true); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

func (r *runner) count(ctx context.Context, ns string, missing bool) error {
	changes, err := recount(ctx, r.registry, ns, missing)
	if len(changes) > 0 && r.Changed != nil {
		r.Changed(ns, changes)
	}
	return err
}

// incomplete reports whether a quota has a limit without a used figure.
func incomplete(o registry.Object) bool {
	s, _ := (&plugin{anyName: true}).read(&o)
	return o.DeletionTimestamp.IsZero() && len(s.used) < len(s.hard)
}

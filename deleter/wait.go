package deleter

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/multierr"
)

// Wait implements [Waiter]. It waits on every source of which report counts remaining
// objects and returns nil when the first of them notices a change. The failure of one source
// does not end the wait for the others. If all fail it returns their failures.
func (c *Composed) Wait(ctx context.Context, target Target, report Report) error {
	if err := checkCall(ctx, target); err != nil {
		return err
	}
	if report.UID != target.UID {
		return fmt.Errorf("%w report: it is of incarnation %q, not of %q", ErrInvalid, report.UID, target.UID)
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error)
	waiting := 0
	for _, r := range report.Results {
		n, k := c.memory.notifier(r.Resource)
		if r.Remaining <= 0 || n == nil {
			continue
		}
		waiting++
		go func() { answers <- waitFor(within, n, k, target, r) }()
	}
	var failed error
	changed := false
	for range waiting {
		switch err := <-answers; {
		case changed:
		case err == nil:
			changed = true
			cancel()
		case !errors.Is(err, ErrNotSupported) && !errors.Is(err, ErrNotSupportedHere):
			failed = multierr.Append(failed, err)
		}
	}
	switch {
	case changed:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed != nil:
		return failed
	}
	return fmt.Errorf("wait for content to disappear: %w", ErrNotSupported)
}

func waitFor(ctx context.Context, n Notifier, k *known, target Target, r Result) error {
	err := TraceCall(ctx, Call{r.Resource, OpWait}, func(ctx context.Context) (int, error) {
		return 0, CatchPanic("", func() error { return n.Wait(ctx, target, r.Seen) })
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotSupported):
		k.learn(noWait)
	}
	return &SourceError{Resource: r.Resource, Op: OpWait, Err: err}
}

package deleter

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/multierr"
)

// Wait implements [Waiter]. It asks every source that can tell and that report saw
// something remain of, all at once; the first that answers ends it. A source that
// fails does not end it as long as another can tell; if all fail it returns their
// failures.
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
	asked := 0
	for _, r := range report.Results {
		content, known := c.memory.content(r.Resource)
		n, ok := content.(Notifier)
		if r.Remaining <= 0 || !ok || known.refuses(noWait) {
			continue
		}
		asked++
		go func() {
			err := error(&SourceError{Resource: r.Resource, Op: OpWait, Err: errNoReturn})
			defer func() { answers <- err }()
			err = waitFor(within, n, known, target, r)
		}()
	}
	return gather(ctx, cancel, asked, answers)
}

func waitFor(ctx context.Context, n Notifier, k *known, target Target, r Result) error {
	err := TraceCall(ctx, Call{r.Resource, OpWait}, func(ctx context.Context) (int, error) {
		return 0, safely(func() error { return n.Wait(ctx, target, r.Seen) })
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotSupported):
		k.learn(noWait)
	}
	return &SourceError{Resource: r.Resource, Op: OpWait, Err: err}
}

// gather takes all answers; the first nil makes the others superfluous.
func gather(ctx context.Context, cancel context.CancelFunc, asked int, answers <-chan error) error {
	var failed error
	woken := false
	for range asked {
		err := <-answers
		switch {
		case woken:
		case err == nil:
			woken = true
			cancel()
		case !errors.Is(err, ErrNotSupported) && !errors.Is(err, ErrNotSupportedHere):
			failed = multierr.Append(failed, err)
		}
	}
	switch {
	case woken:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed != nil:
		return failed
	}
	return fmt.Errorf("waiting for content to go: %w", ErrNotSupported)
}

package kubernetes

import (
	"context"
	"sync"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// singleflight shares one run between callers, none of which gets a result of a run that began
// before its call. The zero value is ready to use.
type singleflight[T any] struct {
	mu      sync.Mutex
	current *flightRun[T] // the current run, or nil
	next    *flightRun[T] // the run after it, or nil
}

// flightRun is one run. Its result is valid once done is closed.
type flightRun[T any] struct {
	run     func(context.Context) (T, error)
	ctx     context.Context
	cancel  context.CancelCauseFunc
	callers int // waiting callers; guarded by singleflight.mu
	done    chan struct{}
	value   T
	err     error
}

// do returns the result of a run that began after the call. Callers that arrive during a run share
// the next one, which uses the function and the context values of the first of them. If ctx ends,
// do returns its cause; the other callers keep the run. The last caller that leaves cancels the
// run and waits for its end. A panic is returned as [*deleter.PanicError].
func (f *singleflight[T]) do(ctx context.Context, run func(context.Context) (T, error)) (value T, err error) {
	if ctx.Err() != nil {
		return value, context.Cause(ctx)
	}
	t := f.join(ctx, run)
	select {
	case <-t.done:
		return t.value, t.err
	case <-ctx.Done():
		f.leave(t, context.Cause(ctx))
		return value, context.Cause(ctx)
	}
}

// join adds the caller to the next run, and starts it if no run is in progress.
func (f *singleflight[T]) join(ctx context.Context, run func(context.Context) (T, error)) *flightRun[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.next
	if t == nil {
		t = &flightRun[T]{run: run, done: make(chan struct{})}
		t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		f.next = t
	}
	t.callers++
	if f.current == nil {
		f.startNext()
	}
	return t
}

// startNext starts the next run if there is one. The caller holds mu.
func (f *singleflight[T]) startNext() {
	f.current, f.next = f.next, nil
	if f.current != nil {
		go f.run(f.current)
	}
}

// run performs a run and starts the next one.
func (f *singleflight[T]) run(t *flightRun[T]) {
	defer func() {
		t.cancel(nil)
		f.mu.Lock()
		f.startNext()
		f.mu.Unlock()
		close(t.done)
	}()
	t.err = deleter.CatchPanic("", func() (err error) {
		t.value, err = t.run(t.ctx)
		return err
	})
}

// leave removes a caller from a run. The last one cancels it.
func (f *singleflight[T]) leave(t *flightRun[T], cause error) {
	f.mu.Lock()
	t.callers--
	last, began := t.callers == 0, t != f.next
	if last && !began {
		f.next = nil
	}
	f.mu.Unlock()
	if !last {
		return
	}
	t.cancel(cause)
	if began {
		<-t.done
	}
}

package kubernetes

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// flight lets callers that want to know the same share one run, without any of them
// getting an answer that is older than its question. Its zero value is ready.
type flight[T any] struct {
	mu   sync.Mutex
	on   *trip[T] // the run under way; nil: none
	next *trip[T] // gathers callers until that is over; nil: nobody waits
}

// trip is one run, and its outcome once done is closed.
type trip[T any] struct {
	run     func(context.Context) (T, error)
	ctx     context.Context // of the run
	cancel  context.CancelCauseFunc
	callers int // who still wait; guarded by flight.mu
	done    chan struct{}
	value   T
	err     error
}

// errGoexit is the outcome of a run that ended its goroutine.
var errGoexit = errors.New("the call ended its goroutine by runtime.Goexit and returned nothing")

// do returns the outcome of a run that began after do was called. Callers that come
// while one is on share the next, which is that of the first of them, with the values
// of its context. The run belongs to all its callers alike: none that gives up takes it
// from the others. When ctx ends, do returns its cause at once; only the last
// caller of a run cancels it and waits for its end, so that no run outlives all who
// asked for it. A panic and [runtime.Goexit] are errors.
func (f *flight[T]) do(ctx context.Context, run func(context.Context) (T, error)) (value T, err error) {
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

// join makes the caller one of the run that begins next, which is at once if none is on.
func (f *flight[T]) join(ctx context.Context, run func(context.Context) (T, error)) *trip[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.next
	if t == nil {
		t = &trip[T]{run: run, done: make(chan struct{})}
		t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		f.next = t
	}
	t.callers++
	if f.on == nil {
		f.begin()
	}
	return t
}

// begin begins the run that is next, if there is one. The caller holds mu.
func (f *flight[T]) begin() {
	f.on, f.next = f.next, nil
	if f.on != nil {
		go f.fly(f.on)
	}
}

// fly makes the run, however it ends, and begins the next.
func (f *flight[T]) fly(t *trip[T]) {
	t.err = errGoexit // until it is known better
	defer func() {
		if value := recover(); value != nil {
			t.err = &deleter.PanicError{Value: value, Stack: debug.Stack()}
		}
		t.cancel(nil)
		f.mu.Lock()
		f.begin()
		f.mu.Unlock()
		close(t.done)
	}()
	t.value, t.err = t.run(t.ctx)
}

// leave takes a caller off a run. The last one ends it.
func (f *flight[T]) leave(t *trip[T], cause error) {
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

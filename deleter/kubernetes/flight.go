package kubernetes

import (
	"context"
	"sync"
)

// flight lets callers that want to know the same share one request, without any
// of them getting an answer that is older than its question. Its zero value is ready.
type flight[T any] struct {
	mu   sync.Mutex
	turn chan struct{} // holds one while a run is on
	next *trip[T]      // gathers callers until it begins; nil: nobody waits
}

// trip is one run, and its outcome once done is closed.
type trip[T any] struct {
	done  chan struct{}
	again *trip[T] // the caller that made it gave up: what those who waited wait for now
	value T
	err   error
}

// do returns the outcome of a run that began after do was called. Callers that come
// while one is on wait for the next, which one of them makes for all. It is made in
// that caller's goroutine and under its context; when that ends first, the others
// make another. When ctx ends, do returns its cause at once.
func (f *flight[T]) do(ctx context.Context, run func(context.Context) (T, error)) (T, error) {
	for t := f.join(); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			continue
		case <-t.done:
		case f.turn <- struct{}{}:
			if f.begin(t) {
				return f.make(ctx, t, run)
			}
			<-f.turn // it was made by another meanwhile
		}
		if t.again == nil {
			return t.value, t.err
		}
		t = t.again
	}
	var none T
	return none, context.Cause(ctx)
}

// join returns the trip that begins next.
func (f *flight[T]) join() *trip[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.turn == nil {
		f.turn = make(chan struct{}, 1)
	}
	if f.next == nil {
		f.next = &trip[T]{done: make(chan struct{})}
	}
	return f.next
}

// begin closes t to further callers; false: it began before, and is over.
func (f *flight[T]) begin(t *trip[T]) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != t {
		return false
	}
	f.next = nil
	return true
}

// make makes the trip. It gives the turn back also if run panics.
func (f *flight[T]) make(ctx context.Context, t *trip[T], run func(context.Context) (T, error)) (T, error) {
	void := true
	defer func() {
		if void {
			t.again = f.join()
		}
		close(t.done)
		<-f.turn
	}()
	t.value, t.err = run(ctx)
	// What failed because this caller had no time left says nothing to the others.
	void = t.err != nil && ctx.Err() != nil
	return t.value, t.err
}

package groupcommit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/store"
)

var errEnough = errors.New("the caller gave up")

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	return ctx
}

// works returns the work of requests.
func works(requests []*Request[int]) (all []int) {
	for _, r := range requests {
		all = append(all, r.Work)
	}
	return all
}

func TestTakeBoundsABatch(t *testing.T) {
	q := New[int]()
	for i := range 2*MaxRequests + 1 {
		q.Enqueue(t.Context(), i, 1)
	}
	for _, want := range []int{MaxRequests, MaxRequests, 1} {
		<-q.Ready()
		batch, open := q.Take(nil)
		require.Len(t, batch, want)
		require.True(t, open)
	}
	for i, size := range []int{2 * MaxBytes, MaxBytes, 1, MaxBytes - 1} {
		q.Enqueue(t.Context(), i, size)
	}
	for _, want := range [][]int{{0}, {1}, {2, 3}} {
		<-q.Ready()
		batch, _ := q.Take(nil)
		require.Equal(t, want, works(batch))
	}
	require.Zero(t, q.Len())
}

func TestFinish(t *testing.T) {
	q := New[int]()
	ok, failed := q.Enqueue(t.Context(), 1, 1), q.Enqueue(t.Context(), 2, 1)
	batch, _ := q.Take(nil)
	q.Submit(batch)
	ok.Finish(7, nil)
	failed.Finish(0, errEnough)
	r, err := ok.Wait()
	require.NoError(t, err)
	require.Equal(t, store.Revision(7), r)
	_, err = failed.Wait()
	require.ErrorIs(t, err, errEnough)
}

// A request is withdrawn when its context ends, unless it is submitted.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int]()
		for _, test := range []struct {
			name    string
			before  func(r *Request[int])
			unknown bool
		}{
			{"waiting", func(*Request[int]) {}, false},
			{"taken", func(*Request[int]) { q.Take(nil) }, false},
			{"returned", func(*Request[int]) { batch, _ := q.Take(nil); q.Return(batch) }, false},
			{"submitted", func(*Request[int]) { batch, _ := q.Take(nil); q.Submit(batch) }, true},
			{"recalled", func(r *Request[int]) { batch, _ := q.Take(nil); q.Submit(batch); q.Recall(r) }, false},
			{"recalled while the caller waits", func(r *Request[int]) {
				batch, _ := q.Take(nil)
				q.Submit(batch)
				time.AfterFunc(patience/2, func() { q.Recall(r) })
			}, false},
		} {
			r := q.Enqueue(ended(t), 1, 1)
			test.before(r)
			began := time.Now()
			_, err := r.Wait()
			require.ErrorIs(t, err, errEnough, test.name)
			require.Equal(t, test.unknown, errors.Is(err, store.ErrUnknownOutcome), test.name)
			require.LessOrEqual(t, time.Since(began), patience, test.name)
			require.Zero(t, q.Len(), test.name)
		}
		late := q.Enqueue(ended(t), 1, 1)
		batch, _ := q.Take(nil)
		q.Submit(batch)
		time.AfterFunc(patience/2, func() { late.Finish(9, nil) })
		r, err := late.Wait()
		require.NoError(t, err, "the result counts, although the context has ended")
		require.Equal(t, store.Revision(9), r)
	})
}

// Callers that give up and try again do not fill the memory while the committer hangs.
func TestWithdrawnRequestsLeaveTheQueue(t *testing.T) {
	q := New[int]()
	var want []int
	for i := range 1000 {
		if i%100 == 0 {
			q.Enqueue(t.Context(), i, 1)
			want = append(want, i)
			continue
		}
		_, err := q.Do(ended(t), i, 1)
		require.ErrorIs(t, err, errEnough)
		require.LessOrEqual(t, len(q.requests), 2*len(want)+1)
		require.Equal(t, len(want), q.Len())
	}
	batch, _ := q.Take(nil)
	require.Equal(t, want, works(batch))
	require.Zero(t, q.withdrawn)
}

func TestReturnKeepsTheOrder(t *testing.T) {
	q := New[int]()
	for i := range 4 {
		q.Enqueue(t.Context(), i, 1)
	}
	batch, _ := q.Take(nil)
	batch[2].Ctx = ended(t)
	_, err := batch[2].Wait()
	require.ErrorIs(t, err, errEnough)
	q.Enqueue(t.Context(), 4, 1)
	q.Return(batch[1:])
	require.Equal(t, []int{0}, works(q.Submit(batch[:1])))
	<-q.Ready()
	batch, _ = q.Take(nil)
	require.Equal(t, []int{1, 3, 4}, works(q.Submit(batch)))
}

func TestClose(t *testing.T) {
	q := New[int]()
	held := q.Enqueue(t.Context(), 1, 1)
	batch, _ := q.Take(nil)
	inQueue := q.Enqueue(t.Context(), 2, 1)
	q.Close()
	q.Close()
	q.Return(batch)
	for _, r := range []*Request[int]{held, inQueue, q.Enqueue(t.Context(), 3, 1)} {
		_, err := r.Wait()
		require.ErrorIs(t, err, store.ErrClosed)
	}
	<-q.Ready()
	batch, open := q.Take(nil)
	require.Empty(t, batch)
	require.False(t, open)
}

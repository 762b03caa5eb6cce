package etcd

import (
	"context"
	"errors"
	"fmt"
	"iter"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/nslifecycle/nslifecycle/store"
)

// loop is one watch. It runs in the goroutine of its caller.
type loop struct {
	store  *Store
	ctx    context.Context // ends with the context of the caller and with the store
	prefix string
	yield  func(store.Change, error) bool

	start    int64 // the current revision when the loop began
	now      int64 // the current revision at the last check of the history
	cursor   int64 // everything up to it has been delivered
	yielded  int64 // the position of the last change or bookmark
	caughtUp bool  // the first bookmark has been delivered
	unborn   bool  // the last stream ended before it began, and the next one starts at once
	denied   int   // the number of consecutive denials

	created bool // the server has confirmed the current stream

	events   []store.Event // of one transaction, which may be incomplete
	revision int64         // of events
}

// errBreak reports that the caller ended its loop.
var errBreak = errors.New("the caller ended the loop")

// Watch implements [store.Store]. Unread changes wait at the server and in the flow-control
// window of one stream, so a slow caller costs bounded memory and delays no other watch. If the
// stream breaks, or its member loses the leader, the watch resumes from its position at another
// member, for as long as its context lives. It ends with [ErrDenied] if the user may not read the
// prefix.
func (s *Store) Watch(ctx context.Context, prefix string, after store.Position) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		if err := s.watch(ctx, prefix, after, yield); !errors.Is(err, errBreak) {
			yield(store.Change{}, &store.Error{Op: "watch", Key: prefix, Err: err})
		}
	}
}

func (s *Store) watch(ctx context.Context, prefix string, after store.Position, yield func(store.Change, error) bool) error {
	if len(prefix) > s.limits.Bytes {
		return fmt.Errorf("%w: the prefix has %d bytes, the limit is %d", store.ErrTooLarge, len(prefix), s.limits.Bytes)
	}
	at, err := s.revision(after)
	if err != nil {
		return err
	}
	// Close waits for calls, but not for watches, because a loop may be the caller of Close.
	_, end, err := s.begin(ctx, s.closing)
	if err != nil {
		return err
	}
	end()
	ctx, leave := join(ctx, s.closing)
	defer leave()
	w := &loop{store: s, ctx: ctx, prefix: prefix, yield: yield}
	if err := w.look(at); err != nil {
		return s.ahead(ctx, at, err)
	}
	if at == 0 {
		at = w.now
	}
	w.start, w.cursor, w.yielded = w.now, at, at
	return w.run()
}

// look reads the current revision. It checks that the epoch has not changed, and that the history
// reaches back to a revision (zero: any).
func (w *loop) look(at int64) error {
	s := w.store
	key := []byte(s.keys.marker)
	requests := []*pb.RangeRequest{{Key: key}}
	if at > 0 {
		requests = append(requests, &pb.RangeRequest{Key: key, Revision: at, CountOnly: true})
	}
	answer, err := s.readAll(w.ctx, requests...)
	if err != nil {
		return err
	}
	w.now = answer.Header.Revision
	kvs := answer.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return fmt.Errorf("%w: the marker at %s is missing", store.ErrGone, s.keys.marker)
	}
	m, err := decodeMarker(kvs[0].Value)
	if err != nil {
		return err
	}
	if epoch := s.epochOf(m); epoch != s.epoch {
		return fmt.Errorf("%w: the epoch is now %s instead of %s, open the store again", store.ErrGone, epoch, s.epoch)
	}
	return nil
}

// run follows one stream after another.
func (w *loop) run() error {
	wait := w.store.backoff()
	for {
		before := w.cursor
		err := w.follow()
		if errors.Is(err, errBreak) {
			return err
		}
		if err := w.ended(); err != nil {
			return err
		}
		if !errors.Is(err, errBroken) {
			return err
		}
		if w.cursor > before {
			wait = w.store.backoff()
		}
		// A stream that never began says nothing about the history, so the next one starts
		// without a look at it. Otherwise, with two servers of which one hangs, balancing could
		// give every look to one server and every stream to the other.
		if w.unborn = !w.unborn && errors.Is(err, errUnborn); w.unborn {
			continue
		}
		if err := w.resume(wait); err != nil {
			return err
		}
	}
}

// resume waits until the cluster answers and the watch can continue.
func (w *loop) resume(wait func(context.Context) error) error {
	for {
		if err := wait(w.ctx); err != nil {
			return err
		}
		err := w.look(w.cursor)
		if ended := w.ended(); ended != nil {
			return ended
		}
		switch {
		case errors.Is(err, store.ErrFuture): // delivered changes are missing: the cluster was restored from a backup
			return fmt.Errorf("%w: %w", store.ErrGone, err)
		case !errors.Is(err, store.ErrUnavailable):
			return err
		}
	}
}

// ended returns the cause if the watch must end, or nil.
func (w *loop) ended() error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return nil
}

// receive delivers one answer of the stream.
func (w *loop) receive(answer *pb.WatchResponse) error {
	if err := w.store.check(answer.Header); err != nil {
		return err
	}
	switch {
	case answer.CompactRevision > 0:
		return fmt.Errorf("%w: revision %d, the history starts at %d", store.ErrGone, w.cursor, answer.CompactRevision)
	case answer.Canceled:
		return w.canceled(answer.CancelReason)
	case answer.Created:
		w.created, w.denied = true, 0
		return nil
	case len(answer.Events) == 0 && !w.created:
		return nil // no progress: the server may hold back earlier events
	case len(answer.Events) == 0:
		return w.progress(answer.Header.Revision)
	}
	for _, e := range answer.Events {
		if r := e.Kv.ModRevision; r != w.revision {
			if err := w.flush(); err != nil {
				return err
			}
			w.revision = r
		}
		if w.revision <= w.cursor {
			continue // the cursor itself, or sent by mistake
		}
		event, err := w.event(e)
		if err != nil {
			return err
		}
		w.events = append(w.events, event)
	}
	if answer.Fragment {
		return nil // the next answer may continue the transaction
	}
	return w.flush()
}

// canceled returns the reason why the server ended the watch.
func (w *loop) canceled(reason string) error {
	for _, e := range []error{
		rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision,
	} {
		if e.Error() != reason {
			continue
		}
		// The token may have expired, or the rights may be changing: the next stream has a new
		// token.
		if w.denied++; w.denied > 2 {
			return fmt.Errorf("%w: %w", ErrDenied, e)
		}
	}
	return fmt.Errorf("%w: the server ended the watch: %s", errBroken, reason)
}

// event converts e. Its previous entry may be missing, because it was compacted, or because the
// server sent the event before it had registered that the watch needs it. A new stream finds out.
func (w *loop) event(e *mvccpb.Event) (store.Event, error) {
	event := store.Event{Key: w.store.keys.keyOf(e.Kv.Key)}
	created := false
	if event.Deleted = e.Type == mvccpb.DELETE; !event.Deleted {
		event.Value = e.Kv.Value
		created = e.Kv.CreateRevision == e.Kv.ModRevision
	}
	switch {
	case created:
	case e.PrevKv == nil:
		return event, fmt.Errorf("%w: the server sent no previous entry of %q at revision %d", errBroken, event.Key, e.Kv.ModRevision)
	default:
		before := w.store.entry(e.PrevKv)
		event.Prev = &before
	}
	return event, nil
}

// flush delivers the gathered transaction.
func (w *loop) flush() error {
	if len(w.events) == 0 {
		return nil
	}
	events := w.events
	w.events = nil
	if !w.caughtUp && w.revision > w.start {
		if err := w.catchUp(w.start); err != nil {
			return err
		}
	}
	w.cursor = w.revision
	if err := w.send(store.Change{Position: w.store.position(w.cursor), Events: events}); err != nil {
		return err
	}
	if !w.caughtUp && w.cursor == w.start {
		return w.catchUp(w.cursor)
	}
	return nil
}

// progress handles a notification that the stream has all events up to revision.
func (w *loop) progress(revision int64) error {
	if revision < w.cursor {
		return nil // from a member that is behind: correct, but not new
	}
	w.cursor = revision
	switch {
	case !w.caughtUp && revision >= w.start:
		return w.catchUp(revision)
	case w.caughtUp && revision > w.yielded:
		return w.send(store.Change{Position: w.store.position(revision)})
	}
	return nil
}

// catchUp delivers the first bookmark.
func (w *loop) catchUp(revision int64) error {
	w.caughtUp = true
	w.cursor = max(w.cursor, revision)
	return w.send(store.Change{Position: w.store.position(revision)})
}

func (w *loop) send(c store.Change) error {
	if err := w.ended(); err != nil {
		return err
	}
	w.yielded = int64(c.Position.Revision)
	if !w.yield(c, nil) {
		return errBreak
	}
	return nil
}

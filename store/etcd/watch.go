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

// watch is one loop over a watch. It runs in the goroutine of its caller.
type watch struct {
	store  *Store
	ctx    context.Context // ends with the caller's and with the store
	prefix string
	yield  func(store.Change, error) bool

	start  int64 // what was current when the loop began
	now    int64 // what was current when the history was last looked at
	cursor int64 // everything up to it has been delivered
	told   int64 // the position of the last change or bookmark
	caught bool  // the first bookmark has been delivered
	unborn bool  // the last stream was given up before it began, and the next is tried at once
	denied int   // how often the server has denied it in a row

	created bool // the server has made the watch of this stream

	events   []store.Event // of one transaction, of which more may come
	revision int64         // of events
}

// errBreak ends a watch whose caller broke its loop.
var errBreak = errors.New("the loop was broken")

// Watch implements [store.Store]. What the caller has not taken yet waits at the
// server and in the flow-control window of one stream, so a slow caller costs
// bounded memory and holds up nobody. When the stream breaks, or the member that
// serves it loses its leader, the watch resumes at another one where it was, for as
// long as its context lives. It ends with [ErrDenied] when the user may not read the
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
		return fmt.Errorf("%w: a prefix of %d bytes, at most %d are allowed", store.ErrTooLarge, len(prefix), s.limits.Bytes)
	}
	at, err := s.revision(after)
	if err != nil {
		return err
	}
	// Close waits for calls, but not for watches: a loop may be the one that closes.
	_, end, err := s.begin(ctx, s.closing)
	if err != nil {
		return err
	}
	end()
	ctx, leave := join(ctx, s.closing)
	defer leave()
	w := &watch{store: s, ctx: ctx, prefix: prefix, yield: yield}
	if err := w.look(at); err != nil {
		return s.ahead(ctx, at, err)
	}
	if at == 0 {
		at = w.now
	}
	w.start, w.cursor, w.told = w.now, at, at
	return w.run()
}

// look learns what is current, and that the history is still the one that the watch
// began in and reaches back to a revision (zero: any).
func (w *watch) look(at int64) error {
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
		return fmt.Errorf("%w: the marker at %s is no longer there", store.ErrGone, s.keys.marker)
	}
	m, err := decodeMarker(kvs[0].Value)
	if err != nil {
		return err
	}
	if epoch := s.epochOf(m); epoch != s.epoch {
		return fmt.Errorf("%w: the epoch is %s now and was %s, open the store again", store.ErrGone, epoch, s.epoch)
	}
	return nil
}

// run follows one stream after another.
func (w *watch) run() error {
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
		// A stream that was not even begun says nothing about the history. Looking at that
		// each time would, with two servers of which one hangs, give every look to the one
		// and every stream to the other.
		if w.unborn = !w.unborn && errors.Is(err, errUnborn); w.unborn {
			continue
		}
		if err := w.resume(wait); err != nil {
			return err
		}
	}
}

// resume waits until the cluster answers again, and the watch can go on.
func (w *watch) resume(wait func(context.Context) error) error {
	for {
		if err := wait(w.ctx); err != nil {
			return err
		}
		err := w.look(w.cursor)
		if ended := w.ended(); ended != nil {
			return ended
		}
		switch {
		case errors.Is(err, store.ErrFuture): // what was delivered is not there: a restored backup
			return fmt.Errorf("%w: %w", store.ErrGone, err)
		case !errors.Is(err, store.ErrUnavailable):
			return err
		}
	}
}

// ended returns why the watch must end, or nil.
func (w *watch) ended() error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return nil
}

// receive delivers one answer of the stream.
func (w *watch) receive(answer *pb.WatchResponse) error {
	if err := w.store.check(answer.Header); err != nil {
		return err
	}
	switch {
	case answer.CompactRevision > 0:
		return fmt.Errorf("%w: revision %d, everything before %d was compacted", store.ErrGone, w.cursor, answer.CompactRevision)
	case answer.Canceled:
		return w.canceled(answer.CancelReason)
	case answer.Created:
		w.created, w.denied = true, 0
		return nil
	case len(answer.Events) == 0 && !w.created:
		return nil // progress of nothing: the server may hold events back that lie before
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
			continue // asked for with the cursor, or sent by mistake
		}
		event, err := w.event(e)
		if err != nil {
			return err
		}
		w.events = append(w.events, event)
	}
	if answer.Fragment {
		return nil // the next answer may have more of the transaction
	}
	return w.flush()
}

// canceled returns why the server ended the watch.
func (w *watch) canceled(reason string) error {
	for _, e := range []error{
		rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision,
	} {
		if e.Error() != reason {
			continue
		}
		// The token may have run out, or the rights be about to change: the next stream has
		// another token.
		if w.denied++; w.denied > 2 {
			return fmt.Errorf("%w: %w", ErrDenied, e)
		}
	}
	return fmt.Errorf("%w: the server ended it: %s", errBroken, reason)
}

// event returns what e means. The entry before it can be missing: it was compacted,
// or the server has sent the event before it knew that the watch wants it. Another
// stream finds out which.
func (w *watch) event(e *mvccpb.Event) (store.Event, error) {
	event := store.Event{Key: w.store.keys.keyOf(e.Kv.Key)}
	created := false
	if event.Deleted = e.Type == mvccpb.DELETE; !event.Deleted {
		event.Value = e.Kv.Value
		created = e.Kv.CreateRevision == e.Kv.ModRevision
	}
	switch {
	case created:
	case e.PrevKv == nil:
		return event, fmt.Errorf("%w: the server did not tell what %q was before revision %d", errBroken, event.Key, e.Kv.ModRevision)
	default:
		before := w.store.entry(e.PrevKv)
		event.Prev = &before
	}
	return event, nil
}

// flush delivers the transaction that has been gathered.
func (w *watch) flush() error {
	if len(w.events) == 0 {
		return nil
	}
	events := w.events
	w.events = nil
	if !w.caught && w.revision > w.start {
		if err := w.catchUp(w.start); err != nil {
			return err
		}
	}
	w.cursor = w.revision
	if err := w.send(store.Change{Position: w.store.position(w.cursor), Events: events}); err != nil {
		return err
	}
	if !w.caught && w.cursor == w.start {
		return w.catchUp(w.cursor)
	}
	return nil
}

// progress takes the word of the server that everything up to revision has been sent
// on this stream.
func (w *watch) progress(revision int64) error {
	if revision < w.cursor {
		return nil // of a member that is behind: it is right, but no news
	}
	w.cursor = revision
	switch {
	case !w.caught && revision >= w.start:
		return w.catchUp(revision)
	case w.caught && revision > w.told:
		return w.send(store.Change{Position: w.store.position(revision)})
	}
	return nil
}

// catchUp delivers the first bookmark.
func (w *watch) catchUp(revision int64) error {
	w.caught = true
	w.cursor = max(w.cursor, revision)
	return w.send(store.Change{Position: w.store.position(revision)})
}

func (w *watch) send(c store.Change) error {
	if err := w.ended(); err != nil {
		return err
	}
	w.told = int64(c.Position.Revision)
	if !w.yield(c, nil) {
		return errBreak
	}
	return nil
}

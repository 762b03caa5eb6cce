package etcd

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/nslifecycle/nslifecycle/store"
)

// pull begins a watch that the test reads change by change. It ends with the test.
func pull(t *testing.T, s store.Store, prefix string, after store.Position) func() (store.Change, error, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	next, stop := iter.Pull2(s.Watch(ctx, prefix, after))
	t.Cleanup(func() {
		cancel()
		stop()
	})
	return next
}

// nextEvents returns the next change that is not a bookmark.
func nextEvents(t *testing.T, next func() (store.Change, error, bool)) store.Change {
	t.Helper()
	for {
		c, err, ok := next()
		require.True(t, ok)
		require.NoError(t, err)
		if !c.Bookmark() {
			return c
		}
	}
}

// A compaction does not affect a waiting watch, because it has all events. A watch that was not
// read ends with ErrGone, perhaps after changes in transit.
func TestCompactionInMidWatch(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s := openAt(t, newPrefix(), quick(), server.URL)
	next := pull(t, s, "k", store.Position{})
	_, err, _ := next()
	require.NoError(t, err)
	unread := pull(t, s, "k", store.Position{})
	_, err, _ = unread()
	require.NoError(t, err)

	value := strings.Repeat("v", 64<<10)
	var all []store.Revision
	for i := range 200 { // 12 MiB, far more than the flow-control window of a stream
		all = append(all, put(t, s, "k", fmt.Sprint(i, value)))
		require.Equal(t, all[i], nextEvents(t, next).Position.Revision)
	}
	last := all[len(all)-1]
	require.NoError(t, s.Compact(t.Context(), last))
	r := put(t, s, "k", "after")
	require.Equal(t, r, nextEvents(t, next).Position.Revision)

	seen := 0
	for {
		c, err, ok := unread()
		require.True(t, ok)
		if err != nil {
			require.ErrorIs(t, err, store.ErrGone)
			break
		}
		if !c.Bookmark() {
			require.Equal(t, all[seen], c.Position.Revision, "no skipping")
			seen++
		}
	}
	require.Less(t, seen, len(all))
}

// If the caller does not read, changes wait at the server, so memory here is bounded.
func TestUnreadWatchIsBounded(t *testing.T) {
	s := openNew(t, quick())
	next := pull(t, s, "k", store.Position{})
	_, err, _ := next()
	require.NoError(t, err)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	value := strings.Repeat("v", 256<<10)
	const n = 160 // 40 MiB, and as much again with previous values
	var first store.Revision
	for i := range n {
		if r := put(t, s, "k", value); i == 0 {
			first = r
		}
	}
	after := heap()
	require.Less(t, int64(after)-int64(before), int64(20<<20))
	for i := range n {
		require.Equal(t, first+store.Revision(i), nextEvents(t, next).Position.Revision)
	}
}

// A transaction larger than a message of the server is one change.
func TestLargeTransactionIsOneChange(t *testing.T) {
	s := openNew(t, quick())
	start := now(t, s)
	value := make([]byte, 8<<10)
	var txn store.Txn
	for i := range 128 {
		txn.Do = append(txn.Do, store.Put(fmt.Sprintf("k%03d", i), value))
	}
	live := pull(t, s, "k", start)
	for range 3 { // with previous values, an answer exceeds the size at which the server splits it
		r, err := s.Commit(t.Context(), txn)
		require.NoError(t, err)
		c := nextEvents(t, live)
		require.Equal(t, r, c.Position.Revision)
		require.Len(t, c.Events, 128)
	}
	past := pull(t, s, "k", start)
	for range 3 {
		require.Len(t, nextEvents(t, past).Events, 128)
	}
}

// A watch resumes at its position whenever its connection breaks.
func TestResume(t *testing.T) {
	server := theServer(t)
	prefix := newPrefix()
	direct := openAt(t, prefix, nil, server.URL)
	g := newGate(t, server.URL)
	s := openAt(t, prefix, quick(), g.url())
	start := now(t, direct)
	const commits = 200
	var want []store.Revision
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range commits {
			want = append(want, put(t, direct, fmt.Sprintf("k%d", i%3), fmt.Sprint(i)))
			if i%20 == 10 {
				g.breakAll()
			}
		}
	})
	var got []store.Revision
	next := pull(t, s, "k", start)
	for range commits {
		c := nextEvents(t, next)
		require.Len(t, c.Events, 1)
		got = append(got, c.Position.Revision)
	}
	writing.Wait()
	require.Empty(t, cmp.Diff(want, got))
	// It resumes after a restart of the server too, from a position of the past.
	r := put(t, direct, "other", "x")
	g.breakAll()
	for {
		c, err, ok := next()
		require.True(t, ok)
		require.NoError(t, err)
		require.True(t, c.Bookmark())
		if c.Position.Revision >= r {
			break
		}
	}
}

// If a stream is silent although its connection is open, the store gives it up, and the watch
// continues on another one.
func TestStalledStream(t *testing.T) {
	server := theServer(t)
	prefix := newPrefix()
	direct := openAt(t, prefix, nil, server.URL)
	gates := []*gate{newGate(t, server.URL), newGate(t, server.URL)}
	o := quick()
	o.pace.stall, o.pace.attempt = 300*time.Millisecond, 500*time.Millisecond
	s := openAt(t, prefix, o, gates[0].url(), gates[1].url())
	next := pull(t, s, "k", store.Position{})
	_, err, _ := next()
	require.NoError(t, err)
	put(t, direct, "k", "first")
	nextEvents(t, next)
	for _, g := range gates { // one of them has the stream
		g.silence(true)
		r := put(t, direct, "k", "unheard")
		require.Equal(t, r, nextEvents(t, next).Position.Revision)
		g.silence(false)
		g.breakAll()
		_, err := s.Get(t.Context(), "k")
		require.NoError(t, err)
	}
}

// fakeStream answers with the messages of a test.
type fakeStream struct {
	pb.Watch_WatchClient
	ctx     context.Context
	answers []*pb.WatchResponse
	asked   chan struct{}
}

func (f *fakeStream) Send(r *pb.WatchRequest) error {
	if r.GetProgressRequest() != nil {
		select {
		case f.asked <- struct{}{}:
		default:
		}
	}
	return nil
}

func (f *fakeStream) Recv() (*pb.WatchResponse, error) {
	if len(f.answers) == 0 {
		<-f.ctx.Done()
		return nil, f.ctx.Err()
	}
	a := f.answers[0]
	f.answers = f.answers[1:]
	return a, nil
}

// engineEvent returns an event of the engine.
func engineEvent(s *Store, key string, created, modified int64, before *mvccpb.KeyValue) *mvccpb.Event {
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: s.keys.of(key), CreateRevision: created, ModRevision: modified}, PrevKv: before}
}

// receiver returns a watch at a revision and records its changes.
func receiver(s *Store, start, cursor int64) (*loop, *[]store.Change) {
	var got []store.Change
	w := &loop{store: s, ctx: context.Background(), start: start, now: start, cursor: cursor, yielded: cursor, caughtUp: cursor == start, created: true}
	w.yield = func(c store.Change, _ error) bool {
		got = append(got, c)
		return true
	}
	return w, &got
}

func revisionsOf(changes []store.Change) (all []store.Revision) {
	for _, c := range changes {
		r := c.Position.Revision
		if c.Bookmark() {
			r = -r
		}
		all = append(all, r)
	}
	return all
}

// Answers of servers, including the faults of old versions.
func TestReceive(t *testing.T) {
	s := openNew(t, nil)
	header := func(r int64) *pb.ResponseHeader { return &pb.ResponseHeader{ClusterId: s.cluster, Revision: r} }
	create := func(r int64) *mvccpb.Event { return engineEvent(s, fmt.Sprint("k", r), r, r, nil) }
	answer := func(header *pb.ResponseHeader, fragment bool, events ...*mvccpb.Event) *pb.WatchResponse {
		return &pb.WatchResponse{Header: header, Events: events, Fragment: fragment}
	}
	for name, c := range map[string]struct {
		start, cursor int64
		answers       []*pb.WatchResponse
		want          []store.Revision // bookmarks negative
		err           error
	}{
		"the header of events is not believed": {10, 10, []*pb.WatchResponse{answer(header(99), false, create(11))}, []store.Revision{11}, nil},
		"events of the past are skipped":       {10, 10, []*pb.WatchResponse{answer(header(11), false, create(9), create(10), create(11))}, []store.Revision{11}, nil},
		"progress of the past is no news":      {10, 10, []*pb.WatchResponse{answer(header(9), false), answer(header(10), false), answer(header(12), false)}, []store.Revision{-12}, nil},
		"catching up with an event at the start": {
			10, 5, []*pb.WatchResponse{answer(header(20), false, create(6), create(10)), answer(header(20), false, create(12))}, []store.Revision{6, 10, -10, 12}, nil},
		"catching up before an event after the start": {
			10, 5, []*pb.WatchResponse{answer(header(20), false, create(6), create(12))}, []store.Revision{6, -10, 12}, nil},
		"catching up by progress": {
			10, 5, []*pb.WatchResponse{answer(header(9), false), answer(header(15), false), answer(header(15), false)}, []store.Revision{-15}, nil},
		"a transaction over several messages": {
			10, 10, []*pb.WatchResponse{answer(header(12), true, create(11), create(12)), answer(header(12), true, create(12)), answer(header(12), false, create(12), create(13))},
			[]store.Revision{11, 12, 13}, nil},
		"an update without the entry before":  {10, 10, []*pb.WatchResponse{answer(header(11), false, engineEvent(s, "k", 3, 11, nil))}, nil, errBroken},
		"a deletion without the entry before": {10, 10, []*pb.WatchResponse{answer(header(11), false, deletion(s, "k", 11))}, nil, errBroken},
		"compacted":                           {10, 5, []*pb.WatchResponse{{Header: header(11), Canceled: true, CompactRevision: 7}}, nil, store.ErrGone},
		"ended by the server":                 {10, 10, []*pb.WatchResponse{{Header: header(11), Canceled: true, CancelReason: "etcdserver: mvcc: something"}}, nil, errBroken},
		"another cluster":                     {10, 10, []*pb.WatchResponse{{Header: &pb.ResponseHeader{ClusterId: s.cluster + 1}, Created: true}}, nil, ErrCluster},
	} {
		t.Run(name, func(t *testing.T) {
			w, got := receiver(s, c.start, c.cursor)
			var err error
			for _, a := range c.answers {
				if err = w.receive(a); err != nil {
					break
				}
			}
			require.ErrorIs(t, err, c.err)
			require.Empty(t, cmp.Diff(c.want, revisionsOf(*got)))
		})
	}
}

func deletion(s *Store, key string, r int64) *mvccpb.Event {
	e := engineEvent(s, key, 0, r, nil)
	e.Type = mvccpb.DELETE
	return e
}

// A denial may be due to an expired token. Only the third in a row ends the watch.
func TestDeniedStreams(t *testing.T) {
	s := openNew(t, nil)
	w, _ := receiver(s, 10, 10)
	const reason = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
	require.ErrorIs(t, w.canceled(reason), errBroken)
	require.ErrorIs(t, w.canceled(reason), errBroken)
	require.ErrorIs(t, w.canceled(reason), ErrDenied)
	w.denied = 2
	require.NoError(t, w.receive(&pb.WatchResponse{Header: &pb.ResponseHeader{ClusterId: s.cluster}, Created: true, Canceled: false}))
	require.ErrorIs(t, w.canceled(reason), errBroken, "not in a row")
}

// A stream requests progress while it is quiet, but not while the caller is slow or events arrive.
// It ends if the server owes an answer.
func TestProgress(t *testing.T) {
	begin := func(owed, reading bool) (*progress, *fakeStream, chan struct{}, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		rpc := &fakeStream{ctx: ctx, asked: make(chan struct{}, 1000)}
		stalled := make(chan struct{})
		p := &progress{pace: pace{bookmark: time.Millisecond, catchUp: time.Millisecond, stall: 5 * time.Millisecond}, rpc: rpc}
		p.stalled = func() { close(stalled) }
		p.ahead = func() bool { return false }
		p.created.Store(true)
		p.owed.Store(owed)
		p.reading.Store(reading)
		p.begin(false)
		return p, rpc, stalled, func() { p.end(cancel) }
	}
	_, rpc, stalled, end := begin(true, true)
	<-rpc.asked
	<-stalled
	end()

	_, rpc, stalled, end = begin(false, true)
	for range 20 {
		<-rpc.asked
	}
	end()
	select {
	case <-stalled:
		t.Fatal("a stream was given up that owed nothing")
	default:
	}

	// On a quiet stream, the server owes an answer once the cluster has advanced.
	p, _, stalled, end := begin(false, true)
	p.mu.Lock()
	p.ahead = func() bool { return true }
	p.mu.Unlock()
	<-stalled
	end()

	p, rpc, _, end = begin(true, false)
	p.catchUp()
	end()
	require.Empty(t, rpc.asked, "the caller does not read")
	p.tick() // after the end
	require.Empty(t, rpc.asked)
}

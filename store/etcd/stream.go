package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// errBroken ends a stream, but not the watch. errUnborn ends a stream that the server has not
// confirmed.
var (
	errBroken = errors.New("the stream broke")
	errUnborn = fmt.Errorf("%w before it began", errBroken)
)

// follow opens a stream at the cursor and delivers its events until the stream breaks.
//
// Each watch has a stream of its own and reads it in the goroutine of its caller. The watcher of
// the client is not used, because it drains streams into an unbounded buffer. Without it, flow
// control propagates a slow caller to the server.
func (w *loop) follow() error {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	s := w.store
	rpc, err := s.watches.Watch(ctx, s.calls...)
	if err != nil {
		return w.broken(err)
	}
	create := &pb.WatchCreateRequest{PrevKv: true, Fragment: true, StartRevision: w.from()}
	create.Key, create.RangeEnd = s.keys.span(w.prefix, "")
	if err := rpc.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		_, err = rpc.Recv() // Send only reports that the stream has ended; Recv returns the reason
		return w.broken(err)
	}
	p := &progress{pace: s.pace, rpc: rpc, stalled: cancel, ahead: w.ahead(ctx)}
	p.owed.Store(true)
	p.begin(w.caughtUp)
	defer p.end(cancel)
	w.created = false
	w.events, w.revision = nil, 0 // discard an incomplete transaction of the previous stream
	if !w.caughtUp && w.cursor == w.start {
		p.catchUp()
		if err := w.catchUp(w.cursor); err != nil {
			return err
		}
	}
	for born := false; ; born = true {
		p.reading.Store(true)
		answer, err := rpc.Recv()
		p.reading.Store(false)
		if err != nil && !born && ctx.Err() != nil {
			return errUnborn
		}
		if err != nil {
			return w.broken(err)
		}
		p.heard.Store(true)
		if len(answer.Events) > 0 {
			p.moved.Store(true)
		}
		// A watch that began ahead of the server gets no answer before the next commit.
		p.owed.Store(!answer.Created)
		if answer.Created {
			p.created.Store(true)
		}
		caught := w.caughtUp
		if err := w.receive(answer); err != nil {
			return err
		}
		if w.caughtUp && !caught {
			p.catchUp()
		}
	}
}

// from returns the revision to request. A watch that starts ahead of the server is live at once.
// A watch that starts in the past requests the cursor itself and skips it. Then the server
// notices a compaction that passes the cursor during catch-up, so no event after the cursor lacks
// its previous entry.
func (w *loop) from() int64 {
	if w.cursor >= w.now {
		return w.cursor + 1
	}
	return w.cursor
}

// ahead returns a function that reports whether the cluster is known to have advanced since the
// stream began.
func (w *loop) ahead(ctx context.Context) func() bool {
	s, cursor := w.store, w.cursor
	return func() bool {
		answer, err := s.read(ctx, &pb.RangeRequest{Key: []byte(s.keys.marker), CountOnly: true})
		return err == nil && answer.Header.Revision > cursor
	}
}

// broken returns errBroken if the watch can continue with another stream after err.
func (w *loop) broken(err error) error {
	kind, shown := classify(err)
	if kind != refused {
		return fmt.Errorf("%w: %w", errBroken, shown)
	}
	if errors.Is(shown, ErrDenied) {
		if w.denied++; w.denied <= 2 {
			return fmt.Errorf("%w: %w", errBroken, shown)
		}
	}
	return shown
}

// progress requests progress notifications from the server, so that a quiet watch advances, and
// ends a stream that does not answer.
type progress struct {
	pace    pace
	rpc     pb.Watch_WatchClient
	stalled func() // ends the stream
	ahead   func() bool

	created atomic.Bool // the server has confirmed the watch
	reading atomic.Bool // the loop waits for the stream, not for its caller
	heard   atomic.Bool // the stream has brought an answer since the last tick
	moved   atomic.Bool // the stream has brought events since the last tick
	owed    atomic.Bool // the server owes an answer: the confirmation, or progress

	mu       sync.Mutex // held while a request is sent
	timer    *time.Timer
	caughtUp bool
	over     bool
	silent   time.Duration // the time without an answer
	looks    sync.WaitGroup
}

func (p *progress) begin(caught bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caughtUp = caught
	p.timer = time.AfterFunc(p.interval(), p.tick)
}

// interval returns the time between two ticks. The server does not answer a watch that has not
// caught up, nor report when it has. Until then requests are frequent.
func (p *progress) interval() time.Duration {
	if p.caughtUp {
		return p.pace.bookmark
	}
	return p.pace.catchUp
}

// catchUp makes requests less frequent.
func (p *progress) catchUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caughtUp = true
	p.timer.Reset(p.interval())
}

func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	reading := p.reading.Load()
	if p.silent += p.interval(); p.heard.Swap(false) || !reading {
		p.silent = 0
	}
	if p.silent >= p.pace.stall {
		if p.owed.Load() {
			p.stalled()
			return
		}
		p.silent = 0
		p.look()
	}
	// Events show the position too, and a slow caller needs no bookmark. Before the server has
	// confirmed the watch, a request is forbidden: the answer could pass events that the server
	// still holds back.
	if moved := p.moved.Swap(false); reading && !moved && p.created.Load() {
		// an error ends the stream, where the loop sees it
		_ = p.rpc.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	}
	p.timer.Reset(p.interval())
}

// look checks whether a silent server owes an answer. On the stream, a quiet cluster and a
// hanging member look alike.
func (p *progress) look() {
	ahead := p.ahead
	p.looks.Go(func() {
		if ahead() {
			p.owed.Store(true)
		}
	})
}

// end stops the requests and waits until none is in progress.
func (p *progress) end(cancel func()) {
	cancel() // interrupts a request in progress
	p.mu.Lock()
	p.over = true
	p.timer.Stop()
	p.mu.Unlock()
	p.looks.Wait()
}

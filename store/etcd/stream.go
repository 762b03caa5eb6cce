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

// errBroken ends a stream, but not the watch. errUnborn is the same for one that the
// server has not confirmed.
var (
	errBroken = errors.New("the stream broke")
	errUnborn = fmt.Errorf("%w before it began", errBroken)
)

// follow opens a stream at the cursor and delivers what it brings, until it breaks.
//
// Each watch has a stream of its own and reads it in the goroutine of its caller,
// without the client's watcher between: that one drains streams into a buffer without
// a bound. Here a caller that does not read is what the server sees as one.
func (w *watch) follow() error {
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
		_, err = rpc.Recv() // Send only says that the stream has ended, this says why
		return w.broken(err)
	}
	p := &pulse{pace: s.pace, rpc: rpc, stalled: cancel, ahead: w.ahead(ctx)}
	p.owed.Store(true)
	p.begin(w.caught)
	defer p.end(cancel)
	w.created = false
	w.events, w.revision = nil, 0 // of a transaction that the stream before did not finish
	if !w.caught && w.cursor == w.start {
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
		caught := w.caught
		if err := w.receive(answer); err != nil {
			return err
		}
		if w.caught && !caught {
			p.catchUp()
		}
	}
}

// from returns the revision to ask for. A watch that starts ahead of the server is
// live at once. One that starts in the past asks for the cursor itself, which it
// skips: so the server notices a compaction that passes the cursor while the watch is
// still catching up, and no event after the cursor loses what it needs.
func (w *watch) from() int64 {
	if w.cursor >= w.now {
		return w.cursor + 1
	}
	return w.cursor
}

// ahead returns a function that tells whether the cluster has gone on since the
// stream began, as far as that can be learnt.
func (w *watch) ahead(ctx context.Context) func() bool {
	s, cursor := w.store, w.cursor
	return func() bool {
		answer, err := s.read(ctx, &pb.RangeRequest{Key: []byte(s.keys.marker), CountOnly: true})
		return err == nil && answer.Header.Revision > cursor
	}
}

// broken tells whether the watch can go on with another stream after err.
func (w *watch) broken(err error) error {
	kind, shown := judge(err)
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

// pulse asks the server now and then how far the stream is, so that a quiet watch
// advances, and gives up a stream that does not answer.
type pulse struct {
	pace    pace
	rpc     pb.Watch_WatchClient
	stalled func() // ends the stream
	ahead   func() bool

	created atomic.Bool // the server has said that it made the watch
	reading atomic.Bool // the loop waits for the stream, not for its caller
	heard   atomic.Bool // something came since the last beat
	moved   atomic.Bool // events did
	owed    atomic.Bool // the server must answer: that it made the watch, or how far it is

	mu     sync.Mutex // held while a request is sent
	timer  *time.Timer
	caught bool
	over   bool
	silent time.Duration // for how long nothing has come
	looks  sync.WaitGroup
}

func (p *pulse) begin(caught bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caught = caught
	p.timer = time.AfterFunc(p.interval(), p.beat)
}

// interval returns the time between two beats. The server does not answer a watch
// that has not caught up, nor does it tell when it has: until then it is asked often.
func (p *pulse) interval() time.Duration {
	if p.caught {
		return p.pace.bookmark
	}
	return p.pace.catchUp
}

// catchUp slows the pulse down.
func (p *pulse) catchUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caught = true
	p.timer.Reset(p.interval())
}

func (p *pulse) beat() {
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
	// Events tell how far the stream is as well, and a caller who is slow does not ask.
	// Before the server has made the watch nobody may ask: it would answer past events
	// that it still holds back.
	if moved := p.moved.Swap(false); reading && !moved && p.created.Load() {
		// An error ends the stream, and the loop learns it there.
		_ = p.rpc.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	}
	p.timer.Reset(p.interval())
}

// look asks the cluster whether a server that is silent owes an answer: a quiet
// cluster and a member that hangs look the same on the stream.
func (p *pulse) look() {
	ahead := p.ahead
	p.looks.Go(func() {
		if ahead() {
			p.owed.Store(true)
		}
	})
}

// end stops the pulse: when it returns, nothing of it runs.
func (p *pulse) end(cancel func()) {
	cancel() // a request that is being sent ends
	p.mu.Lock()
	p.over = true
	p.timer.Stop()
	p.mu.Unlock()
	p.looks.Wait()
}

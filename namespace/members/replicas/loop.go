package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Why a replica lapsed, and what it holds against a watch.
var (
	errSilent   = errors.New("no beat has counted for as long as Options.Patience")
	errExpelled = errors.New("others have taken the replica for dead and deleted its entry")
	errLeft     = errors.New("the replica leaves")
	errDeaf     = errors.New("watch members: a beat that was acknowledged a Beat ago has not come back; watching anew")
)

// loop is one Run of a replica. One goroutine owns it; calls to the store run in
// goroutines of their own and report over channels.
type loop struct {
	*Replica
	ctx     context.Context
	hooks   Hooks
	members map[string]member
	own     own

	calls     sync.WaitGroup
	news      chan news
	done      chan try
	expelled  chan expelled
	unfollow  context.CancelFunc
	following bool
	listed    bool      // there was a listing
	refollow  time.Time // when to follow anew, if not following
	expelling bool
	closed    error // the store is closed for good
}

// member is what the loop knows of an entry.
type member struct {
	Member
	revision store.Revision
	told     time.Time // when it was told of this revision, so not before it was written
}

// own is the loop's own entry and the beat that is due or under way.
type own struct {
	id      string
	beat    uint64    // the number of the last beat
	sent    time.Time // when that was first tried
	counted bool      // it has come back
	busy    bool      // a commit is under way
	stored  bool      // the commit has been answered: the watch will tell
	next    time.Time // when to try again, or if it has counted when the next is due
	until   time.Time // how long the replica owns its share
}

// try is a commit of a beat and its end.
type try struct {
	id  string
	at  store.Revision // that it replaces; zero: none
	err error
}

func newLoop(ctx context.Context, r *Replica) *loop {
	return &loop{
		Replica:  r,
		ctx:      ctx,
		hooks:    r.options.Hooks,
		members:  map[string]member{},
		own:      own{id: newID(), counted: true},
		news:     make(chan news),
		done:     make(chan try),
		expelled: make(chan expelled),
	}
}

func (l *loop) run() error {
	parent := l.ctx
	ctx, cancel := context.WithCancel(parent)
	defer l.calls.Wait()
	defer cancel()
	l.ctx = ctx
	finished := false
	finish := func() error {
		finished = true
		l.publish(newView(), cmp.Or(l.closed, errLeft))
		cancel()
		l.calls.Wait()
		return l.leave(parent)
	}
	defer func() {
		if !finished { // a hook has panicked
			l.hooks = Hooks{}
			_ = finish()
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil && l.closed == nil {
		select {
		case n := <-l.news:
			l.hear(n)
		case t := <-l.done:
			l.answered(t)
		case e := <-l.expelled:
			l.expulsion(e)
		case <-timer.C:
		case <-ctx.Done():
			continue
		}
		timer.Reset(time.Until(l.act()))
	}
	return finish()
}

// act does what is due, and returns when it is to be called again at the latest.
func (l *loop) act() time.Time {
	now := time.Now()
	next := now.Add(l.options.Beat)
	if l.lapse(now); now.Before(l.own.until) {
		next = earlier(next, l.own.until)
	}
	switch {
	case l.following:
	case now.Before(l.refollow):
		next = earlier(next, l.refollow)
	default:
		l.followAnew()
	}
	switch {
	case !l.listed || l.own.busy:
	case now.Before(l.own.next):
		next = earlier(next, l.own.next)
	case !l.own.counted && l.own.stored:
		// The watch has had a Beat's time to tell: it is lost, or too slow to be of use.
		l.own.next = next
		if l.following {
			l.failed(errDeaf)
			l.unfollow()
		}
	default:
		l.beat(now)
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (l *loop) followAnew() {
	ctx, cancel := context.WithCancel(l.ctx)
	l.following, l.unfollow = true, cancel
	l.calls.Go(func() {
		defer cancel()
		err := l.follow(ctx)
		l.tell(l.ctx, news{ended: err, byUs: ctx.Err() != nil})
	})
}

// beat writes the own entry: the next beat if the last one has counted, else that
// one again. The write is conditional on what the watch told last, so that of all
// tries of one beat at most one is stored.
func (l *loop) beat(now time.Time) {
	if l.own.counted {
		l.own.beat++
		l.own.sent, l.own.counted = now, false
	}
	l.own.busy, l.own.stored = true, false
	key := l.prefix + l.own.id
	t := try{id: l.own.id, at: l.members[l.own.id].revision}
	condition := store.Absent(key)
	if t.at != 0 {
		condition = store.At(key, t.at)
	}
	txn := store.Txn{
		If: []store.Condition{condition},
		Do: []store.Operation{store.Put(key, value{Beat: l.own.beat, Label: l.options.Label}.encode())},
	}
	l.calls.Go(func() {
		t.err = l.commit(txn)
		select {
		case l.done <- t:
		case <-l.ctx.Done():
		}
	})
}

// commit is a commit that takes a Beat at most.
func (l *loop) commit(txn store.Txn) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.options.Beat)
	defer cancel()
	_, err := l.store.Commit(ctx, txn)
	return err
}

// answered takes up the end of a try. Whether the beat counts the watch tells, also
// when the outcome is unknown.
func (l *loop) answered(t try) {
	l.own.busy = false
	if l.own.counted || t.id != l.own.id {
		return // the watch was faster, or it was for an earlier life
	}
	now := time.Now()
	refused := errors.Is(t.err, store.ErrConflict)
	switch {
	case refused && l.members[l.own.id].revision != t.at:
		l.own.next = now // the watch was faster: it told what the entry is now
	case refused, t.err == nil:
		l.own.stored = true
		l.own.next = now.Add(l.options.Beat)
	default:
		l.own.next = now.Add(l.options.Beat / 4)
		l.failed(fmt.Errorf("beat: %w", t.err))
	}
}

// failed takes up the failure of a call.
func (l *loop) failed(err error) {
	if errors.Is(err, store.ErrClosed) {
		l.closed = err
	}
	if l.hooks.Failed != nil {
		l.hooks.Failed(err)
	}
}

// leave deletes the own entry. It is called when nothing runs any more.
func (l *loop) leave(parent context.Context) error {
	if l.closed != nil || l.own.beat == 0 {
		return l.closed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), l.options.Beat)
	defer cancel()
	_, err := l.store.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete(l.prefix + l.own.id)}})
	if err != nil {
		return fmt.Errorf("replicas: could not leave, others take over after Patience and a Beat: %w", err)
	}
	return nil
}

package replicas

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/members/internal/instance"
	"github.com/nslifecycle/nslifecycle/store"
)

// The causes of Hooks.Lapsed and of a watch that is given up.
var (
	errSilent     = errors.New("no beat has counted for Options.Patience")
	errExpelled   = errors.New("other replicas considered this one dead and deleted its entry")
	errLeft       = errors.New("the replica leaves")
	errStaleWatch = errors.New("watch members: a beat that the store acknowledged a Beat ago has not come back; the watch begins again")
)

// value is the content of an entry.
type value struct {
	Beat  uint64 `json:"beat"` // counts the writes of its owner
	Label string `json:"label,omitempty"`
}

func (v value) encode() []byte {
	data, _ := json.Marshal(v) // a number and a string always encode
	return data
}

// decode reads the content of an entry. An entry with any other content is a member too, as
// long as it changes.
func decode(data []byte) value {
	var v value
	if json.Unmarshal(data, &v) != nil {
		return value{}
	}
	return v
}

// idOf returns the member with the given key. It returns false for a key of another group
// whose name begins with the name of this one.
func (r *Replica) idOf(key string) (id string, ok bool) {
	id, ok = strings.CutPrefix(key, r.prefix)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// loop is one Run of a replica. One goroutine owns it. The watch and the calls to the store
// run in goroutines of their own and report over channels.
type loop struct {
	*Replica
	ctx     context.Context
	hooks   Hooks
	members map[string]member
	lease   lease

	calls       sync.WaitGroup
	updates     chan update
	commits     chan commit
	expulsions  chan expulsion
	expelling   bool
	listed      bool // the members have been listed once
	watching    bool
	cancelWatch context.CancelFunc
	nextWatch   time.Time // when to watch again, if not watching
	closed      error     // the store is closed for good
}

// member is the state of one entry.
type member struct {
	Member
	revision store.Revision
	received time.Time // when this revision arrived, so not before it was written
}

// lease is the lease of this replica and the beat that renews it. A beat moves through
// these states:
//
//	state       means                                        then
//	counted     the last beat came back through the watch    the next one at next
//	writing     a commit of it is under way                  acknowledged, or retried at next
//	written     the commit was acknowledged or refused       counted; else at next the watch begins again
//	retrying    the commit failed                            writing at next
type lease struct {
	id      string
	beat    uint64    // the number of the last beat
	sent    time.Time // when that was tried first
	counted bool
	writing bool
	written bool
	next    time.Time
	until   time.Time // the end of the lease
}

// commit is the end of a commit of a beat.
type commit struct {
	id       string
	replaces store.Revision // zero: none
	err      error
}

func newLoop(ctx context.Context, r *Replica) *loop {
	return &loop{
		Replica:    r,
		ctx:        ctx,
		hooks:      r.options.Hooks,
		members:    map[string]member{},
		lease:      lease{id: instance.NewID(), counted: true},
		updates:    make(chan update),
		commits:    make(chan commit),
		expulsions: make(chan expulsion),
	}
}

func (l *loop) run() error {
	parent := l.ctx
	ctx, cancel := context.WithCancel(parent)
	l.ctx = ctx
	left := false
	stop := func() error {
		l.publish(newView(), cmp.Or(l.closed, errLeft))
		left = true
		cancel()
		l.calls.Wait()
		return l.leave(parent)
	}
	defer func() {
		if !left { // a hook has panicked
			l.hooks = Hooks{}
			_ = stop()
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil && l.closed == nil {
		select {
		case u := <-l.updates:
			l.update(u)
		case c := <-l.commits:
			l.committed(c)
		case e := <-l.expulsions:
			l.expelled(e)
		case <-timer.C:
		case <-ctx.Done():
			continue
		}
		timer.Reset(time.Until(l.act()))
	}
	return stop()
}

// act does everything that is due. It returns when it must be called again at the latest.
func (l *loop) act() time.Time {
	now := time.Now()
	next := now.Add(l.options.Beat)
	by := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if l.lapse(now); now.Before(l.lease.until) {
		by(l.lease.until)
	}
	switch {
	case l.watching:
	case now.Before(l.nextWatch):
		by(l.nextWatch)
	default:
		l.startWatch()
	}
	switch {
	case !l.listed || l.lease.writing:
	case now.Before(l.lease.next):
		by(l.lease.next)
	case !l.lease.counted && l.lease.written: // the watch is lost, or too slow to be useful
		l.lease.next = now.Add(l.options.Beat)
		if l.watching {
			l.failed(errStaleWatch)
			l.cancelWatch()
		}
	default:
		l.beat(now)
	}
	return next
}

// beat writes the entry of this replica: the next beat if the last one has counted, else the
// last one again. The write is conditional on the revision that the watch returned last, so
// the store takes at most one of all tries of a beat.
func (l *loop) beat(now time.Time) {
	if l.lease.counted {
		l.lease.beat++
		l.lease.sent, l.lease.counted = now, false
	}
	l.lease.writing, l.lease.written = true, false
	key := l.prefix + l.lease.id
	c := commit{id: l.lease.id, replaces: l.members[l.lease.id].revision}
	condition := store.Absent(key)
	if c.replaces != 0 {
		condition = store.At(key, c.replaces)
	}
	txn := store.Txn{
		If: []store.Condition{condition},
		Do: []store.Operation{store.Put(key, value{Beat: l.lease.beat, Label: l.options.Label}.encode())},
	}
	l.calls.Go(func() {
		c.err = l.commit(txn)
		send(l.ctx, l.commits, c)
	})
}

// commit commits txn within a Beat.
func (l *loop) commit(txn store.Txn) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.options.Beat)
	defer cancel()
	_, err := l.store.Commit(ctx, txn)
	return err
}

// send sends v, unless ctx ends first. It reports whether it did.
func send[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// committed handles the end of a commit. Whether the beat counts only the watch decides,
// also if the outcome of the commit is unknown.
func (l *loop) committed(c commit) {
	l.lease.writing = false
	if l.lease.counted || c.id != l.lease.id {
		return // the watch was faster, or the commit was for a former entry
	}
	now := time.Now()
	conflict := errors.Is(c.err, store.ErrConflict)
	switch {
	case conflict && l.members[l.lease.id].revision != c.replaces:
		l.lease.next = now // the watch has returned the current entry since
	case conflict, c.err == nil:
		l.lease.written = true
		l.lease.next = now.Add(l.options.Beat)
	default:
		l.lease.next = now.Add(l.options.Beat / 4)
		l.failed(fmt.Errorf("beat: %w", c.err))
	}
}

// count handles the return of the current beat through the watch.
func (l *loop) count(now time.Time) {
	lapsed := !now.Before(l.lease.until)
	l.lease.counted, l.lease.written = true, false
	l.lease.next = l.lease.sent.Add(l.options.Beat)
	l.lease.until = l.lease.sent.Add(l.options.Patience)
	if !lapsed {
		l.expelSilent()
		return
	}
	// The cause of the lapse may have kept the other members from beating too.
	for id, m := range l.members {
		m.received = now
		l.members[id] = m
	}
}

// lapse makes the replica own nothing once its lease has ended.
func (l *loop) lapse(now time.Time) {
	if !now.Before(l.lease.until) {
		l.publish(newView(), errSilent)
	}
}

// rejoin handles the deletion of the replica's own entry: it gets another id, but not
// before a quarter of a Beat after its last beat was sent.
func (l *loop) rejoin() {
	next := l.lease.sent.Add(l.options.Beat / 4)
	l.lease = lease{id: instance.NewID(), beat: l.lease.beat, sent: l.lease.sent, counted: true, writing: l.lease.writing, next: next}
	l.publish(newView(), errExpelled)
}

// leave deletes the entry of this replica. No other call may be under way.
func (l *loop) leave(parent context.Context) error {
	if l.closed != nil || l.lease.beat == 0 {
		return l.closed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), l.options.Beat)
	defer cancel()
	_, err := l.store.Commit(ctx, store.Txn{Do: []store.Operation{store.Delete(l.prefix + l.lease.id)}})
	if err != nil {
		return fmt.Errorf("replicas: could not leave, others take over after Patience and a Beat: %w", err)
	}
	return nil
}

// failed handles the failure of a call.
func (l *loop) failed(err error) {
	if errors.Is(err, store.ErrClosed) {
		l.closed = err
	}
	if l.hooks.Failed != nil {
		l.hooks.Failed(err)
	}
}

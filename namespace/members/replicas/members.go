package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// update is one step of the watch: all entries, the changes of one commit, or its end.
type update struct {
	listing  *store.Page
	change   store.Change
	ended    error
	canceled bool
}

// errEnded is the cause of a watch that ended without one.
var errEnded = errors.New("the watch ended")

func (l *loop) startWatch() {
	ctx, cancel := context.WithCancel(l.ctx)
	l.watching, l.cancelWatch = true, cancel
	l.calls.Go(func() {
		defer cancel()
		err := l.watch(ctx)
		send(l.ctx, l.updates, update{ended: err, canceled: ctx.Err() != nil})
	})
}

// watch sends all entries, then every change, until ctx ends or the watch fails. It returns
// the cause.
func (l *loop) watch(ctx context.Context) error {
	page, err := l.list(ctx)
	if err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	if !send(ctx, l.updates, update{listing: &page}) {
		return context.Cause(ctx)
	}
	for change, err := range l.store.Watch(ctx, l.prefix, page.Position) {
		if err != nil {
			return fmt.Errorf("watch members: %w", err)
		}
		if !change.Bookmark() && !send(ctx, l.updates, update{change: change}) {
			return context.Cause(ctx)
		}
	}
	return errEnded
}

func (l *loop) list(ctx context.Context) (store.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, l.options.Beat)
	defer cancel()
	return l.store.List(ctx, store.Query{Prefix: l.prefix})
}

// update handles an update of the watch.
func (l *loop) update(u update) {
	now := time.Now()
	l.lapse(now)
	switch {
	case u.ended != nil:
		l.watching, l.nextWatch = false, now
		if !u.canceled {
			l.nextWatch = now.Add(l.options.Beat / 4)
			l.failed(u.ended)
		}
		return
	case u.listing != nil:
		l.replace(u.listing.Entries, now)
	default:
		for _, e := range u.change.Events {
			switch id, ok := l.idOf(e.Key); {
			case !ok:
			case e.Deleted:
				l.remove(id)
			default:
				l.put(id, e.Value, u.change.Position.Revision, now)
			}
		}
	}
	l.refresh(now)
}

// replace handles a listing. It handles the replica's own entry last, so that a beat counts
// after every entry before it has been seen.
func (l *loop) replace(entries []store.Entry, now time.Time) {
	l.listed = true
	var self *store.Entry
	listed := make(map[string]bool, len(entries))
	for i, e := range entries {
		id, ok := l.idOf(e.Key)
		if !ok {
			continue
		}
		listed[id] = true
		switch {
		case id == l.lease.id:
			self = &entries[i]
		case l.members[id].revision != e.Revision:
			l.put(id, e.Value, e.Revision, now)
		}
	}
	for id := range l.members {
		if !listed[id] {
			l.remove(id)
		}
	}
	if self != nil {
		l.put(l.lease.id, self.Value, self.Revision, now)
	}
}

// put handles a write of the entry of id.
func (l *loop) put(id string, data []byte, revision store.Revision, now time.Time) {
	v := decode(data)
	self := id == l.lease.id
	changed := l.members[id].revision != revision
	l.members[id] = member{Member: Member{ID: id, Label: v.Label, Self: self}, revision: revision, received: now}
	switch {
	case !self || l.lease.counted:
	case v.Beat == l.lease.beat:
		l.count(now)
	case changed: // by another process, so the beat under way will conflict
		l.lease.written, l.lease.next = false, now
	}
}

// remove handles the deletion of the entry of id.
func (l *loop) remove(id string) {
	_, known := l.members[id]
	delete(l.members, id)
	if id == l.lease.id && known {
		l.rejoin()
	}
}

// expulsion is the end of the deletion of a silent member's entry.
type expulsion struct {
	member Member
	err    error
	last   bool
}

// expelSilent deletes the entries of the members that were silent for Patience before the
// beat that has just counted was sent.
func (l *loop) expelSilent() {
	if l.expelling {
		return
	}
	var silent []member
	for _, m := range l.members {
		if !m.Self && l.lease.sent.Sub(m.received) >= l.options.Patience {
			silent = append(silent, m)
		}
	}
	if len(silent) == 0 {
		return
	}
	l.expelling = true
	l.calls.Go(func() {
		for i, m := range silent {
			key := l.prefix + m.ID
			err := l.commit(store.Txn{
				If: []store.Condition{store.At(key, m.revision)},
				Do: []store.Operation{store.Delete(key)},
			})
			if !send(l.ctx, l.expulsions, expulsion{m.Member, err, i == len(silent)-1}) {
				return
			}
		}
	})
}

// expelled handles the end of an expulsion. A failed one is repeated after the next beat. A
// conflict means that the member is alive, or that another replica was faster.
func (l *loop) expelled(e expulsion) {
	l.expelling = l.expelling && !e.last
	switch {
	case e.err == nil:
		if l.hooks.Expelled != nil {
			l.hooks.Expelled(e.member)
		}
	case !errors.Is(e.err, store.ErrConflict):
		l.failed(fmt.Errorf("expel the silent member %s (%s): %w", e.member.ID, e.member.Label, e.err))
	}
}

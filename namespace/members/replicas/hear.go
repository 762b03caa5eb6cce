package replicas

import (
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// hear takes up what the follower tells.
func (l *loop) hear(n news) {
	now := time.Now()
	l.lapse(now)
	switch {
	case n.ended != nil:
		l.following, l.refollow = false, now
		if !n.byUs {
			l.refollow = now.Add(l.options.Beat / 4)
			l.failed(n.ended)
		}
		return
	case n.listing != nil:
		l.relist(n.listing.Entries, now)
	default:
		for _, e := range n.change.Events {
			switch id, ok := l.idOf(e.Key); {
			case !ok:
			case e.Deleted:
				l.gone(id, now)
			default:
				l.put(id, e.Value, n.change.Position.Revision, now)
			}
		}
	}
	l.refresh(now)
}

// relist takes up a listing. The own entry comes last, so that a beat counts when
// what came before it has been seen.
func (l *loop) relist(entries []store.Entry, now time.Time) {
	l.listed = true
	var self *store.Entry
	there := make(map[string]bool, len(entries))
	for i, e := range entries {
		id, ok := l.idOf(e.Key)
		if !ok {
			continue
		}
		there[id] = true
		switch {
		case id == l.own.id:
			self = &entries[i]
		case l.members[id].revision != e.Revision:
			l.put(id, e.Value, e.Revision, now)
		}
	}
	for id := range l.members {
		if !there[id] {
			l.gone(id, now)
		}
	}
	if self != nil {
		l.put(l.own.id, self.Value, self.Revision, now)
	}
}

// put takes up that the entry of id was written.
func (l *loop) put(id string, data []byte, revision store.Revision, now time.Time) {
	v := decode(data)
	self := id == l.own.id
	moved := l.members[id].revision != revision
	l.members[id] = member{Member: Member{ID: id, Label: v.Label, Self: self}, revision: revision, told: now}
	switch {
	case !self || l.own.counted:
	case v.Beat == l.own.beat:
		l.count(now)
	case moved:
		// Somebody else wrote it, and the beat under way is refused: try again.
		l.own.stored, l.own.next = false, now
	}
}

// count takes up that a beat has come back.
func (l *loop) count(now time.Time) {
	lapsed := !now.Before(l.own.until)
	l.own.counted, l.own.stored = true, false
	l.own.next = l.own.sent.Add(l.options.Beat)
	l.own.until = l.own.sent.Add(l.options.Patience)
	if lapsed {
		// Whatever kept this replica from beating may have kept the others.
		for id, m := range l.members {
			m.told = now
			l.members[id] = m
		}
		return
	}
	l.judge()
}

// judge expels the members that were silent for Patience before the beat that has
// just counted was sent.
func (l *loop) judge() {
	if l.expelling {
		return
	}
	var silent []member
	for _, m := range l.members {
		if !m.Self && l.own.sent.Sub(m.told) >= l.options.Patience {
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
			select {
			case l.expelled <- expelled{m.Member, err, i == len(silent)-1}:
			case <-l.ctx.Done():
				return
			}
		}
	})
}

// expelled is the end of a call that deletes the entry of a silent member.
type expelled struct {
	member Member
	err    error
	last   bool
}

// expulsion takes up the end of one. What failed is done again after the next beat;
// what conflicts was alive, or somebody else was faster.
func (l *loop) expulsion(e expelled) {
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

// gone takes up that the entry of id was deleted.
func (l *loop) gone(id string, now time.Time) {
	_, known := l.members[id]
	delete(l.members, id)
	if id != l.own.id || !known {
		return
	}
	// A new life, at once unless the last one was short.
	next := l.own.sent.Add(l.options.Beat / 4)
	l.own = own{id: newID(), beat: l.own.beat, sent: l.own.sent, counted: true, busy: l.own.busy, next: next}
	l.publish(newView(), errExpelled)
}

// lapse lets the replica own nothing once its term is over.
func (l *loop) lapse(now time.Time) {
	if !now.Before(l.own.until) {
		l.publish(newView(), errSilent)
	}
}

// refresh publishes the members as they are known now.
func (l *loop) refresh(now time.Time) {
	if !now.Before(l.own.until) {
		return // lapsed, and published so
	}
	members := make([]Member, 0, len(l.members))
	for _, m := range l.members {
		members = append(members, m.Member)
	}
	v := newView(members...)
	v.until = l.own.until
	if old := l.view.Load(); old.same(v) {
		l.renew(old, v)
		return
	}
	l.publish(v, nil)
}

// renew lets v take the place of old, which differs in its term only. That needs no
// signal, unless somebody may have seen old's term end: [Replica.Owns] reads the
// clock before the view, so whoever has seen that did so before the clock is read here.
func (l *loop) renew(old, v *view) {
	silently := *v
	silently.changed = old.changed
	l.view.Store(&silently)
	if !time.Now().Before(old.until) {
		l.view.Store(v)
		close(old.changed)
	}
}

// publish lets v take the place of the view before, and tells everybody. Where
// neither is a member's there is nothing to tell.
func (l *loop) publish(v *view, why error) {
	old := l.view.Load()
	if old.self < 0 && v.self < 0 {
		return
	}
	l.view.Store(v)
	close(old.changed)
	switch {
	case v.self < 0:
		if l.hooks.Lapsed != nil {
			l.hooks.Lapsed(why)
		}
		return
	case old.self < 0 && l.hooks.Joined != nil:
		l.hooks.Joined(v.members[v.self])
	}
	if l.hooks.Members != nil {
		l.hooks.Members(append([]Member(nil), v.members...))
	}
}

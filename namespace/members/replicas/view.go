package replicas

import (
	"slices"
	"strings"
	"time"
)

// view is the division of names as one replica knows it. It is immutable.
type view struct {
	members []Member // ordered by ID; none if the replica is not a member
	weights []uint64 // hashes of the members
	self    int      // the index of the replica; -1: it is not a member
	until   time.Time
	changed chan struct{} // closed when the next view differs
}

func newView(members ...Member) *view {
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	v := &view{members: members, self: -1, changed: make(chan struct{})}
	for i, m := range members {
		v.weights = append(v.weights, hash(m.ID))
		if m.Self {
			v.self = i
		}
	}
	return v
}

// owns reports whether the replica owns name at now, which must have been read before the
// view was loaded: see [loop.extend].
func (v *view) owns(name string, now time.Time) bool {
	return v.self >= 0 && now.Before(v.until) && v.owner(name) == v.self
}

// owner returns the member that owns name. It depends only on names and on the order of the
// members, so all replicas agree.
func (v *view) owner(name string) int {
	h := hash(name)
	best, most := 0, uint64(0)
	for i, w := range v.weights {
		if weight := mix(h ^ w); weight > most {
			best, most = i, weight
		}
	}
	return best
}

// same reports whether both views have the same members.
func (v *view) same(w *view) bool { return v.self == w.self && slices.Equal(v.members, w.members) }

// refresh publishes the current members, if the replica is one.
func (l *loop) refresh(now time.Time) {
	if !now.Before(l.lease.until) {
		return
	}
	members := make([]Member, 0, len(l.members))
	for _, m := range l.members {
		members = append(members, m.Member)
	}
	v := newView(members...)
	v.until = l.lease.until
	if old := l.view.Load(); old.same(v) {
		l.extend(old, v)
		return
	}
	l.publish(v, nil)
}

// extend replaces old by v, which differs only in its end. That needs no signal, unless a
// caller of [Replica.Owns] saw old as ended. Owns reads the clock before it loads the view, so
// if the clock, read after the replacement, is still before old.until, there was no such caller.
func (l *loop) extend(old, v *view) {
	quiet := *v
	quiet.changed = old.changed
	l.view.Store(&quiet)
	if !time.Now().Before(old.until) {
		l.view.Store(v)
		close(old.changed)
	}
}

// publish replaces the view by v, signals the change and calls the hooks. If the replica is
// a member in neither view, nothing has changed.
func (l *loop) publish(v *view, cause error) {
	old := l.view.Load()
	if old.self < 0 && v.self < 0 {
		return
	}
	l.view.Store(v)
	close(old.changed)
	switch {
	case v.self < 0:
		if l.hooks.Lapsed != nil {
			l.hooks.Lapsed(cause)
		}
		return
	case old.self < 0 && l.hooks.Joined != nil:
		l.hooks.Joined(v.members[v.self])
	}
	if l.hooks.Members != nil {
		l.hooks.Members(slices.Clone(v.members))
	}
}

// hash is the 64-bit FNV-1a hash: the same in every process, version and machine.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads every bit of h over all (the finalizer of MurmurHash3). FNV alone is weak in
// its high bits, which decide.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

package replicas

import (
	"slices"
	"strings"
	"time"
)

// view is who owns what, as one replica sees it. It never changes; another takes
// its place.
type view struct {
	members []Member // ordered by ID; none when the replica is not a member
	weights []uint64 // of the members, for the hash
	self    int      // the replica among them; -1: it is not a member
	until   time.Time
	changed chan struct{} // closed when the next view answers otherwise
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

// owns reports whether the replica owns name, at a time that was read before the view
// was had: see [loop.renew].
func (v *view) owns(name string, now time.Time) bool {
	return v.self >= 0 && now.Before(v.until) && v.owner(name) == v.self
}

// owner returns which member owns name. All replicas come to the same answer, since
// members are ordered and the hash depends on names only.
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

// hash is the 64-bit FNV-1a hash: the same in every process, version and machine.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// mix spreads every bit of h over all (the finalizer of MurmurHash3): FNV alone is
// weak in its high bits, which decide.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

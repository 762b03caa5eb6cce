package contenttest

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

// space is the content of one incarnation of a namespace in a fake. The fake's mutex guards it.
type space struct {
	uid     string
	active  bool
	objects map[string]*object
	order   []*object     // by name, among them some that are gone
	timed   []*object     // that will go by themselves
	gone    int           // objects that have disappeared
	changed chan struct{} // closed and replaced when one disappears or is about to
}

type object struct {
	Object
	deletedAt time.Time // zero: not being deleted
	gone      bool
}

func newSpace(uid string) *space {
	return &space{uid: uid, objects: map[string]*object{}, changed: make(chan struct{})}
}

// put adds o and replaces an object of the same name.
func (s *space) put(o Object) {
	if old := s.objects[o.Name]; old != nil {
		s.remove(old)
	}
	added := &object{Object: o}
	s.objects[o.Name] = added
	at := len(s.order)
	if at > 0 && s.order[at-1].Name > o.Name {
		at, _ = slices.BinarySearchFunc(s.order, o.Name, func(o *object, name string) int { return cmp.Compare(o.Name, name) })
	}
	s.order = slices.Insert(s.order, at, added)
}

// from yields the objects whose names come after a name, in order.
func (s *space) from(after string) iter.Seq[*object] {
	return func(yield func(*object) bool) {
		at, _ := slices.BinarySearchFunc(s.order, after, func(o *object, name string) int { return cmp.Compare(o.Name, name) })
		for _, o := range s.order[at:] {
			if !o.gone && o.Name > after && !yield(o) {
				return
			}
		}
	}
}

// remove removes o and wakes waiters. Removed objects stay in the order until they are the
// larger part of it.
func (s *space) remove(o *object) {
	o.gone = true
	delete(s.objects, o.Name)
	if len(s.order) > 2*len(s.objects)+16 {
		s.order = slices.DeleteFunc(s.order, func(o *object) bool { return o.gone })
	}
	s.gone++
	s.wake()
}

func (s *space) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// mark requests the deletion of o.
func (s *space) mark(o *object) {
	if o.deletedAt.IsZero() {
		o.deletedAt = time.Now()
		s.schedule(o)
	}
}

// schedule removes o if it is due, and otherwise records when it is.
func (s *space) schedule(o *object) {
	at := o.goneAt()
	switch {
	case at.IsZero():
	case !at.After(time.Now()):
		s.remove(o)
	default:
		s.timed = append(s.timed, o)
		s.wake()
	}
}

// markAll requests the deletion of all objects, or of batch objects if that is positive.
func (s *space) markAll(batch int) (marked int, more bool) {
	for _, o := range slices.Clone(s.order) {
		if o.gone || !o.deletedAt.IsZero() {
			continue
		}
		if batch > 0 && marked == batch {
			return marked, true
		}
		s.mark(o)
		marked++
	}
	return marked, false
}

// goneAt returns when o disappears by itself; zero: it does not.
func (o *object) goneAt() time.Time {
	if o.deletedAt.IsZero() || len(o.Finalizers) > 0 && o.HeldFor <= 0 {
		return time.Time{}
	}
	after := o.Grace
	if len(o.Finalizers) > 0 {
		after = max(after, o.HeldFor)
	}
	return o.deletedAt.Add(after)
}

// expire removes the objects that are due.
func (s *space) expire() {
	now := time.Now()
	s.timed = slices.DeleteFunc(s.timed, func(o *object) bool {
		if !o.gone && o.goneAt().After(now) {
			return false
		}
		if !o.gone {
			s.remove(o)
		}
		return true
	})
}

// nextGone returns when the next object disappears by itself; zero: none does.
func (s *space) nextGone() time.Time {
	var next time.Time
	for _, o := range s.timed {
		if at := o.goneAt(); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

func (o *object) item() deleter.Item {
	item := deleter.Item{
		Name: o.Name, UID: o.UID, Deleting: !o.deletedAt.IsZero(), Finalizers: slices.Clone(o.Finalizers),
	}
	if item.Deleting && o.Grace > 0 {
		item.Grace = max(0, o.Grace-time.Since(o.deletedAt))
	}
	return item
}

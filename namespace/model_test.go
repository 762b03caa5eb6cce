package namespace_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The model has one name in a small store, two processes that do passes, for two parties or for the
// same one, a client, and crashes. Every access of a pass to the store is a step of its own, so that
// other steps can come between. The real functions Prepare, Validate, MarkDeleted, Removable and
// Decide change the namespace.
//
// The model replaces revisions by a flag "fresh" for each read, which is sufficient for
// compare-and-swap and makes the number of states finite. Budgets limit the client's requests and the
// failures.

var (
	parties = [2]namespace.Party{{Finalizer: finalizer.Kubernetes}, {Finalizer: "openshift.com/origin"}}
	modelAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// The results of a pass, and of a party's conditions.
type result uint8

const (
	noResult result = iota
	empty
	remaining
	retained
	failed
)

var errSource = errors.New("the source is down")

func (s result) observation() phase.Observation {
	left := []phase.Remaining{{Resource: "pods", Count: 1}}
	switch s {
	case remaining:
		return phase.Observation{Remaining: left}
	case retained:
		return phase.Observation{Remaining: left, Finalizers: []phase.Holder{{Finalizer: "example.com/backup", Objects: 1}}}
	case failed:
		return phase.Observation{Discovery: []error{errSource}}
	}
	return phase.Observation{}
}

// object is the stored namespace in a comparable form.
type object struct {
	uid       uint8     // the incarnation; zero: none
	deleted   bool      // deletionTimestamp is set
	protected bool      // it has a protection
	held      [2]uint8  // spec.finalizers in order: party number plus one; zero: none
	reported  [2]result // the conditions of each party
}

func (o object) terminating() bool { return o.uid != 0 && o.deleted }
func (o object) active() bool      { return o.uid != 0 && !o.deleted }

func (o object) has(party int) bool {
	return o.held[0] == uint8(party+1) || o.held[1] == uint8(party+1)
}

// unpack returns the namespace of o.
func (o object) unpack() namespace.Namespace {
	var names []finalizer.Name
	for _, h := range o.held {
		if h != 0 {
			names = append(names, parties[h-1].Finalizer)
		}
	}
	n := namespace.PrepareCreate(namespace.Namespace{Meta: namespace.Meta{Name: "x"}}, finalizer.Kubernetes, fmt.Sprint("uid-", o.uid), modelAt)
	n.Spec.Finalizers = finalizer.NewSet(names...)
	if o.protected {
		n.Annotations = map[string]string{protection: protectionIs}
	}
	if o.deleted {
		n = namespace.MarkDeleted(n, modelAt)
	}
	for p, r := range o.reported {
		if r != noResult {
			n.Status.Conditions = phase.Conditions(n.Status.Conditions, r.observation(), qualifiers[p], modelAt)
		}
	}
	return n
}

var qualifiers = [2]string{"", "openshift.com/origin"}

const (
	protection   = declare.ProtectionPrefix + "legal"
	protectionIs = `{"owner":"team-a","reason":"contract until May"}`
)

// pack is the inverse of unpack.
func pack(n namespace.Namespace) object {
	var o object
	_, _ = fmt.Sscanf(n.UID, "uid-%d", &o.uid)
	o.deleted = !n.DeletionTimestamp.IsZero()
	o.protected = n.Annotations[protection] != ""
	for i, name := range n.Spec.Finalizers.All() {
		for p := range parties {
			if parties[p].Finalizer == name {
				o.held[i] = uint8(p + 1)
			}
		}
	}
	for p := range parties {
		o.reported[p] = reportedBy(n.Status.Conditions, qualifiers[p])
	}
	return o
}

func reportedBy(conditions []phase.Condition, qualifier string) result {
	is := map[phase.ConditionType]phase.ConditionStatus{}
	for _, c := range conditions {
		is[c.Type] = c.Status
	}
	switch {
	case is[phase.ContentRemaining.Qualified(qualifier)] == "":
		return noResult
	case is[phase.DiscoveryFailure.Qualified(qualifier)] == phase.True || is[phase.ContentFailure.Qualified(qualifier)] == phase.True:
		return failed
	case is[phase.FinalizersRemaining.Qualified(qualifier)] == phase.True:
		return retained
	case is[phase.ContentRemaining.Qualified(qualifier)] == phase.True:
		return remaining
	}
	return empty
}

// The actors of a write, besides the numbers of the parties.
const (
	noParty = -1
	client  = -2
)

// content is the content of one party: at most one object.
type content struct {
	uid  uint8 // the incarnation of its creation; zero: none
	held bool  // by its own finalizer
}

// The steps of a pass, and of the client's read-modify-write.
type step uint8

const (
	idle step = iota
	deleting
	listing
	writingStatus
	finalizing
	reading // again, after a conflict
)

// process is the memory of one party or of the client.
type process struct {
	at     step
	target uint8  // the incarnation of the pass
	read   object // the namespace as last read
	fresh  bool   // no write since
	saw    result
}

// budget limits the other events.
type budget struct{ contents, incarnations, writes, failures, crashes, declarations uint8 }

// state is the whole, comparable state.
type state struct {
	ns      object
	content [2]content
	process [2]process
	client  process
	left    budget
	gone    [2]uint8 // for each party, a bit for each finalized incarnation
	seenUID uint8    // the newest incarnation
}

// transition is a step from one state to another.
type transition struct {
	to       state
	name     string
	progress bool  // taken by a healthy party, or by the owner of a finalizer on content
	broken   error // the broken safety property
}

// model has the rules. The mutants change them.
type model struct {
	who       [2]int // the party of each process
	decide    func(namespace.Namespace, namespace.Party, namespace.Observed, time.Time) namespace.Decision
	removable func(namespace.Namespace) bool
	update    func(old, updated namespace.Namespace) namespace.Namespace
	deletable func(namespace.Namespace) error
	unfenced  bool // content is deleted without checking the incarnation
	ungated   bool // content is created some time after the gate was checked
	unswapped bool // finalize does not compare before it swaps
	unpacked  map[object]namespace.Namespace
}

// newModel returns the model with the real rules.
func newModel(who [2]int) *model {
	return &model{who: who, decide: namespace.Decide, removable: namespace.Removable, update: namespace.PrepareUpdate,
		deletable: func(n namespace.Namespace) error { return declare.ValidateDelete(n, namespace.Preconditions{}) },
		unpacked:  map[object]namespace.Namespace{}}
}

// unpack caches [object.unpack]. Other tests check that no function changes its arguments.
func (m *model) unpack(o object) namespace.Namespace {
	n, ok := m.unpacked[o]
	if !ok {
		n = o.unpack()
		m.unpacked[o] = n
	}
	return n
}

// write replaces the stored namespace by n, or removes it (rule R1), and makes every other read stale.
// By is the actor that finalizes, if any.
func (m *model) write(s *state, n namespace.Namespace, by int) error {
	was := s.ns
	s.ns = pack(n)
	if m.removable(n) {
		s.ns = object{}
	}
	for i := range s.process {
		s.process[i].fresh = false
	}
	s.client.fresh = false
	return m.safe(*s, was, pack(n), by)
}

// safe checks the safety of a write of the namespace.
func (m *model) safe(s state, was, is object, by int) error {
	if is.uid != was.uid && was.uid != 0 {
		return fmt.Errorf("R8: incarnation %d overwrote %d", is.uid, was.uid)
	}
	if was.deleted && !is.deleted {
		return errors.New("R3: the deletion was undone")
	}
	if was.protected && !was.deleted && is.deleted {
		return errors.New("protection: the deletion began although the namespace was protected")
	}
	for p := range parties {
		if was.has(p) && !is.has(p) && by != p {
			return fmt.Errorf("R4: the finalizer of party %d went without its doing", p)
		}
		if was.uid != 0 && !was.has(p) && is.has(p) && by != client {
			return fmt.Errorf("R4: the finalizer of party %d came without finalize", p)
		}
	}
	if s.ns.uid != 0 {
		return nil
	}
	if !is.deleted || is.held != [2]uint8{} {
		return errors.New("R1: removed while Active or held")
	}
	for p, c := range s.content {
		if c.uid == was.uid && s.gone[p]&(1<<was.uid) != 0 {
			return fmt.Errorf("R7: removed while content of party %d was left, which had let go", p)
		}
	}
	return nil
}

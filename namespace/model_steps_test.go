package namespace_test

import (
	"errors"
	"fmt"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// next returns the possible steps in s.
func (m *model) next(s state) []transition {
	var all []transition
	add := func(name string, progress bool, to state, broken error) {
		all = append(all, transition{to, name, progress, broken})
	}
	for i := range s.process {
		m.passSteps(s, i, add)
	}
	for p, c := range s.content {
		if c.held {
			to := s
			to.content[p].held = false
			add(fmt.Sprintf("the finalizer on content of party %d goes", p), true, to, nil)
		}
	}
	m.contentSteps(s, add)
	m.namespaceSteps(s, add)
	m.clientSteps(s, add)
	return all
}

type adder = func(name string, progress bool, to state, broken error)

// passSteps are the steps of a pass of process i, as package pass does them.
func (m *model) passSteps(s state, i int, add adder) {
	name := func(what string) string { return fmt.Sprintf("process %d of party %d %s", i, m.who[i], what) }
	me := s.process[i]
	to := s
	mine := &to.process[i]
	if me.at != idle && s.left.crashes > 0 {
		crashed := s
		crashed.process[i] = process{}
		crashed.left.crashes--
		add(name("crashes"), false, crashed, nil)
	}
	switch me.at {
	case idle:
		if s.ns.terminating() {
			*mine = process{at: deleting, target: s.ns.uid, read: s.ns, fresh: true}
			add(name("starts a pass"), true, to, nil)
		}
	case deleting:
		add(name("deletes"), true, to, m.deleteContent(&to, i))
	case listing:
		mine.at, mine.saw = writingStatus, sees(s.content[m.who[i]])
		add(name("lists"), true, to, nil)
		if s.left.failures > 0 {
			mine.saw = failed
			to.left.failures--
			add(name("fails to list"), false, to, nil)
		}
	case writingStatus:
		add(name("writes status"), true, to, m.writeStatus(&to, i))
	case finalizing:
		add(name("finalizes"), true, to, m.finalize(&to, i))
	case reading:
		mine.at, mine.read, mine.fresh = writingStatus, s.ns, true
		if s.ns.uid == 0 {
			*mine = process{}
		}
		add(name("reads again"), true, to, nil)
	}
}

func sees(c content) result {
	switch {
	case c.uid == 0:
		return empty
	case c.held:
		return retained
	}
	return remaining
}

func (m *model) deleteContent(s *state, i int) error {
	me := &s.process[i]
	c := &s.content[m.who[i]]
	if !m.unfenced && (!s.ns.terminating() || s.ns.uid != me.target) {
		*me = process{} // another incarnation: the pass fails
		return nil
	}
	me.at = listing
	if c.uid == 0 || c.held {
		return nil
	}
	was := c.uid
	*c = content{}
	// Deleting the content of an earlier incarnation is safe, of a later one is not.
	if was > me.target {
		return fmt.Errorf("R8: a pass for incarnation %d deleted content of %d", me.target, was)
	}
	return nil
}

func (m *model) decision(me process, p int) namespace.Decision {
	seen := namespace.Observed{UID: fmt.Sprint("uid-", me.target), Observation: me.saw.observation()}
	if me.saw == failed {
		seen.Failed = errSource
	}
	return m.decide(m.unpack(me.read), parties[p], seen, modelAt)
}

func (m *model) writeStatus(s *state, i int) error {
	me, p := &s.process[i], m.who[i]
	d := m.decision(*me, p)
	then := idle
	if d.Finalize {
		then = finalizing
	}
	if !d.StatusChanged || d.Remove {
		return proceed(me, then)
	}
	if !me.fresh {
		return proceed(me, reading)
	}
	updated := m.unpack(me.read)
	updated.Status = d.Status
	old := m.unpack(s.ns)
	n := namespace.PrepareStatus(old, updated)
	if err := namespace.ValidateStatus(old, n); err != nil {
		return err
	}
	if s.ns.uid != me.target {
		return fmt.Errorf("R8: a pass for incarnation %d wrote status of %d", me.target, s.ns.uid)
	}
	broken := m.write(s, n, noParty)
	me.read, me.fresh = s.ns, true
	return errors.Join(broken, proceed(me, then))
}

func (m *model) finalize(s *state, i int) error {
	me, p := &s.process[i], m.who[i]
	d := m.decision(*me, p)
	if !me.fresh && !m.unswapped {
		return proceed(me, reading)
	}
	if s.ns.uid == 0 {
		return proceed(me, idle)
	}
	updated := m.unpack(me.read)
	updated.Spec.Finalizers = d.Finalizers
	old := m.unpack(s.ns)
	n := namespace.PrepareFinalize(old, updated)
	if err := namespace.ValidateFinalize(old, n); err != nil {
		return err
	}
	if s.ns.uid != me.target {
		return fmt.Errorf("R8: a pass for incarnation %d finalized %d", me.target, s.ns.uid)
	}
	if left := s.content[p]; left.uid == s.ns.uid {
		return fmt.Errorf("R7: party %d let go while its content was left", p)
	}
	s.gone[p] |= 1 << s.ns.uid
	broken := m.write(s, n, p)
	return errors.Join(broken, proceed(me, idle))
}

// proceed sets the next step of a process. An idle process has no memory.
func proceed(me *process, at step) error {
	if me.at = at; at == idle {
		*me = process{}
	}
	return nil
}

// contentSteps are the client's creations of content. The same commit checks that the namespace is
// Active.
func (m *model) contentSteps(s state, add adder) {
	if m.ungated {
		m.ungatedSteps(s, add)
		return
	}
	for p := range s.content {
		if !s.ns.active() || s.content[p].uid != 0 || s.left.contents == 0 {
			continue
		}
		for _, held := range []bool{false, true} {
			to := s
			to.left.contents--
			to.content[p] = content{s.ns.uid, held}
			add(fmt.Sprintf("the client creates content of party %d (held: %t)", p, held), false, to, nil)
		}
	}
}

// ungatedSteps break R6: the check and the creation are two commits.
func (m *model) ungatedSteps(s state, add adder) {
	to := s
	switch {
	case s.client.at == idle && s.ns.active() && s.left.contents > 0 && s.content[0].uid == 0:
		to.client = process{at: listing, target: s.ns.uid}
		to.left.contents--
		add("the client sees the gate open", false, to, nil)
	case s.client.at == listing:
		to.client = process{}
		to.content[0] = content{uid: s.client.target}
		var broken error
		if !s.ns.active() {
			broken = errors.New("R6: content was created while the namespace was not Active")
		}
		add("the client creates content", false, to, broken)
	}
}

// namespaceSteps are the client's deletions and creations of the namespace.
func (m *model) namespaceSteps(s state, add adder) {
	if s.ns.uid != 0 {
		m.deletionSteps(s, add)
		m.declarationSteps(s, add)
		return
	}
	if s.left.incarnations == 0 {
		return
	}
	for _, p := range m.who {
		asked := finalizer.NewSet(parties[p].Finalizer)
		to := s
		to.left.incarnations--
		to.seenUID++
		n := namespace.Namespace{Meta: namespace.Meta{Name: "x"}, Spec: namespace.Spec{Finalizers: asked}}
		n = namespace.PrepareCreate(n, finalizer.Kubernetes, fmt.Sprint("uid-", to.seenUID), modelAt)
		broken := errors.Join(namespace.ValidateCreate(n), m.write(&to, n, noParty))
		add(fmt.Sprintf("the client creates the namespace with %v", asked.Names()), false, to, broken)
	}
}

// deletionSteps are the client's accepted deletions of the namespace.
func (m *model) deletionSteps(s state, add adder) {
	to := s
	old := m.unpack(s.ns)
	refused := m.deletable(old)
	switch n := namespace.MarkDeleted(old, modelAt); {
	case pack(n) != s.ns && refused == nil:
		broken := m.write(&to, n, noParty)
		add("the client deletes the namespace", false, to, broken)
	case pack(n) == s.ns && refused != nil:
		add("the client deletes the namespace again", false, to, fmt.Errorf("R3: a second deletion was refused: %w", refused))
	}
}

// declarationSteps are an operator's updates that add or remove the protection. A terminating
// namespace cannot be protected.
func (m *model) declarationSteps(s state, add adder) {
	if s.left.declarations == 0 || s.ns.deleted && !s.ns.protected {
		return
	}
	to := s
	to.left.declarations--
	old := m.unpack(s.ns)
	asked := old.DeepCopy()
	asked.Annotations = nil
	if !s.ns.protected {
		asked.Annotations = map[string]string{protection: protectionIs}
	}
	n := m.update(old, asked)
	broken := errors.Join(declare.ValidateUpdate(old, n, modelAt), m.write(&to, n, noParty))
	add(fmt.Sprintf("an operator has the namespace protected: %t", !s.ns.protected), false, to, broken)
}

// clientSteps are the client's read and a later write: it adds the finalizer of a late party with
// compare-and-swap, or replaces the namespace by the old copy without a condition.
func (m *model) clientSteps(s state, add adder) {
	if m.ungated {
		return
	}
	to := s
	switch {
	case s.client.at == idle && s.ns.uid != 0 && s.left.writes > 0:
		to.client = process{at: reading, read: s.ns, fresh: true}
		to.left.writes--
		add("the client reads the namespace", false, to, nil)
	case s.client.at == reading:
		to.client = process{}
		if late := m.who[1]; s.client.fresh {
			n := m.unpack(s.ns)
			n.Spec.Finalizers = n.Spec.Finalizers.With(parties[late].Finalizer)
			to := to
			n = namespace.PrepareFinalize(m.unpack(s.ns), n)
			broken := errors.Join(namespace.ValidateFinalize(m.unpack(s.ns), n), m.write(&to, n, client))
			add(fmt.Sprintf("the client adds the finalizer of party %d", late), false, to, broken)
		}
		if s.ns.uid != 0 {
			n := m.update(m.unpack(s.ns), m.unpack(s.client.read))
			broken := m.write(&to, n, noParty)
			add("the client puts back what it read", false, to, broken)
		}
	}
}

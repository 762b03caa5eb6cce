package explain

import (
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// What was recorded is of the present only while whoever told it is at work: otherwise
// somebody else may have been since, and the conditions know better.

// voices returns what the controllers said last that tell of the namespace. A history
// that was not made by a recorder may say it for all of them at once.
func (b *builder) voices() []Voice {
	h := b.in.History
	if h.Voices != nil || h.Total <= 0 && h.Queued.IsZero() && h.Running.IsZero() {
		return h.Voices
	}
	names := h.Parties
	if len(names) == 0 {
		names = []finalizer.Name{""}
	}
	var list []Voice
	for _, party := range names {
		v := Voice{Party: party, Queued: h.Queued, Running: h.Running, Next: h.Next}
		for _, p := range h.Passes {
			if owner(p.Party) != owner(party) {
				continue
			}
			v.Heard = p.Start.Add(p.Took)
			switch p.Outcome {
			case "failed", "waiting":
				v.Looked, v.Done = v.Heard, false
			case "finalized", "not held":
				v.Done = true
			}
		}
		list = append(list, v)
	}
	return list
}

// owner is the party that party stands for: that of the default finalizer, where the
// recorder was not told ([Recorder.Hooks]).
func owner(party finalizer.Name) finalizer.Name {
	if party == "" {
		return finalizer.Kubernetes
	}
	return party
}

// voice returns what the controller of a party said last.
func (b *builder) voice(party finalizer.Name) (Voice, bool) {
	list := b.voices()
	at := slices.IndexFunc(list, func(v Voice) bool { return owner(v.Party) == owner(party) })
	if at < 0 {
		return Voice{}, false
	}
	return list[at], true
}

func (v Voice) idle() bool { return v.Queued.IsZero() && v.Running.IsZero() }

// due returns when something should have been heard at the latest.
func (v Voice) due() time.Time {
	if v.Next != nil {
		return v.Next.At
	}
	return v.Heard
}

// overdue reports whether something should have been heard long ago.
func (b *builder) overdue(v Voice) bool {
	return v.idle() && !v.Done && !v.Left && b.age(v.due()) > idleGrace
}

// current reports whether what was recorded of a party is true still.
func (b *builder) current(party finalizer.Name) bool {
	v, ok := b.voice(party)
	return ok && !v.Looked.IsZero() && !v.Done && !v.Left && !b.overdue(v)
}

// anyCurrent reports whether what was recorded of some party is true still.
func (b *builder) anyCurrent() bool {
	return slices.ContainsFunc(b.voices(), func(v Voice) bool { return b.current(v.Party) })
}

// tells reports whether the namespace has conditions of that party.
func (b *builder) tells(party finalizer.Name) bool {
	return slices.ContainsFunc(b.in.Namespace.Status.Conditions, func(c phase.Condition) bool {
		by, _ := split(c.Type)
		return by == owner(party)
	})
}

// movedOn reports whether a condition of that party has changed since.
func (b *builder) movedOn(party finalizer.Name, since time.Time) bool {
	return slices.ContainsFunc(b.in.Namespace.Status.Conditions, func(c phase.Condition) bool {
		by, _ := split(c.Type)
		return by == owner(party) && c.LastTransitionTime.After(since)
	})
}

// known returns an object as it is known now; false: nothing is, or the conditions know
// better.
func (b *builder) known(o Objects) (Objects, bool) {
	v, ok := b.voice(o.Party)
	if b.current(o.Party) {
		for _, p := range slices.Backward(b.in.History.Passes) {
			if owner(p.Party) == owner(o.Party) && p.Outcome != "interrupted" {
				o.Old = !o.Counted.IsZero() && o.Counted.Before(p.Start)
				break
			}
		}
		return o, true
	}
	o.Old = true
	if ok && o.Counted.IsZero() {
		o.Counted = v.Looked
	}
	if !b.tells(o.Party) {
		return o, !o.Counted.IsZero()
	}
	same := slices.ContainsFunc(b.toldBy(o.Party, phase.ContentRemaining, remainingIn), func(c Objects) bool {
		return c.Resource == o.Resource && c.Remaining == o.Remaining
	})
	holders := b.toldHolders(o.Party)
	o.HeldBy = slices.DeleteFunc(slices.Clone(o.HeldBy), func(h HeldBy) bool { return !slices.Contains(holders, h.Finalizer) })
	return o, same
}

// toldBy returns what the condition of that type says that a party wrote.
func (b *builder) toldBy(party finalizer.Name, t phase.ConditionType, read func(string) []Objects) (list []Objects) {
	for _, c := range b.told(t) {
		if by, _ := split(c.Type); by == owner(party) {
			list = append(list, read(c.Message)...)
		}
	}
	return list
}

func (b *builder) toldHolders(party finalizer.Name) (list []string) {
	for _, c := range b.told(phase.FinalizersRemaining) {
		if by, _ := split(c.Type); by == owner(party) {
			for _, h := range heldIn(c.Message) {
				list = append(list, h.Finalizer)
			}
		}
	}
	return list
}

// failingNow returns whether a source that failed in the last recorded pass fails now,
// as far as known, and else when that pass was; zero: the conditions know better.
func (b *builder) failingNow(source string) (now bool, at time.Time) {
	streaks := slices.DeleteFunc(slices.Clone(b.in.History.Streaks), func(s Streak) bool { return s.Source != source })
	if len(streaks) == 0 {
		for _, v := range b.voices() {
			streaks = append(streaks, Streak{Party: v.Party})
		}
	}
	for _, s := range streaks {
		v, _ := b.voice(s.Party)
		switch {
		case b.current(s.Party):
			return true, time.Time{}
		case !b.tells(s.Party) && v.Looked.After(at):
			at = v.Looked
		}
	}
	return false, at
}

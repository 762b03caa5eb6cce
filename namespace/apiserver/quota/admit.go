package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Admit implements [registry.Admission].
func (p *plugin) Admit(ctx context.Context, w *registry.Write) error {
	if w.Itself != nil && w.Itself.Verb == registry.Create {
		return p.reset(ctx, w)
	}
	if w.Namespace == "" || len(w.Objects) == 0 {
		return nil
	}
	resource := w.Objects[0].Type.Name()
	more := false // a quota limits a new name
	if resource == Resource {
		var err error
		if more, err = p.admitQuotas(ctx, w); err != nil {
			return err
		}
	}
	change, err := p.difference(w.Objects)
	if err != nil || len(change) == 0 && !more {
		return err
	}
	active, err := w.RequireGate(ctx)
	if err != nil || !active { // RequireGate makes "not active" a condition of the commit too
		return err
	}
	if more {
		w.TouchGate()
	}
	if len(change) == 0 {
		return nil
	}
	return p.charge(ctx, w, change)
}

// reset drops the used figures of quotas that outlived a removed namespace of the same name. They
// miss the changes since that namespace became Terminating.
func (p *plugin) reset(ctx context.Context, w *registry.Write) error {
	quotas, err := w.List(ctx, Resource)
	if err != nil {
		return err
	}
	for _, quota := range quotas {
		s, _ := p.read(&quota)
		s.used = nil
		updated := quota
		if err := s.store(&updated); err != nil {
			return err
		}
		if err := w.Replace(quota, updated); err != nil {
			return err
		}
	}
	return nil
}

// admitQuotas checks created and updated quotas and sets their status. It reports whether a quota
// limits a name that it did not limit before.
func (p *plugin) admitQuotas(ctx context.Context, w *registry.Write) (more bool, err error) {
	for i := range w.Objects {
		c := &w.Objects[i]
		r := recountIn(ctx)
		if c.New == nil && r != nil {
			return false, r.refuseRemoval(c.Old.Name)
		}
		if c.New == nil || c.Verb == registry.Delete {
			continue
		}
		if r != nil && c.Verb == registry.Update {
			if err := p.recount(ctx, w, c, r); err != nil {
				return false, err
			}
			continue
		}
		after, wrong := p.read(c.New)
		var before state
		if c.Old != nil {
			before, _ = p.read(c.Old)
			if sameLimits(c.Old, c.New) {
				wrong = nil // the stored spec has the same violations
			}
		}
		if len(wrong) > 0 {
			return false, c.Type.Invalid(c.New.Name, wrong)
		}
		after.used = amounts{}
		for name := range after.hard {
			if used, ok := before.used[name]; ok {
				after.used[name] = used
			}
			if _, ok := before.hard[name]; !ok {
				more = true
			}
		}
		if err := after.store(c.New); err != nil {
			return false, err
		}
	}
	return more, nil
}

// sameLimits reports whether two versions of a quota have the same spec.
func sameLimits(a, b *registry.Object) bool {
	return string(a.Fields["spec"]) == string(b.Fields["spec"])
}

// charge adds a change to every quota that limits one of its names, or refuses the write.
func (p *plugin) charge(ctx context.Context, w *registry.Write, change amounts) error {
	quotas, err := w.List(ctx, Resource)
	if err != nil {
		return err
	}
	for i := range quotas {
		if err := p.chargeOne(ctx, w, &quotas[i], change); err != nil {
			return err
		}
	}
	return nil
}

func (p *plugin) chargeOne(ctx context.Context, w *registry.Write, quota *registry.Object, change amounts) error {
	own := changeOf(w, quota)
	if own != nil {
		if quota = own.New; quota == nil || own.Verb == registry.Delete {
			return nil
		}
	}
	if !quota.DeletionTimestamp.IsZero() {
		return nil
	}
	s, wrong := p.read(quota)
	if len(wrong) > 0 && increases(change) {
		return fmt.Errorf("quota %s is malformed: %s: %s", quota.Name, wrong[0].Field, wrong[0].Message)
	}
	names := limited(s.hard, change)
	if len(names) == 0 {
		return nil
	}
	if err := p.complete(ctx, w, &s, change); err != nil {
		return err
	}
	if err := s.charge(w, quota.Name, names, change); err != nil {
		return err
	}
	updated := *quota
	if err := s.store(&updated); err != nil {
		return err
	}
	if own != nil {
		*quota = updated
		return nil
	}
	return w.Replace(*quota, updated)
}

// changeOf returns the change of the quota in w, or nil.
func changeOf(w *registry.Write, quota *registry.Object) *registry.ObjectChange {
	for i := range w.Objects {
		c := &w.Objects[i]
		if c.Type.Name() == Resource && c.Old != nil && c.Old.Name == quota.Name {
			return c
		}
	}
	return nil
}

func increases(change amounts) bool {
	for _, q := range change {
		if q.Sign() > 0 {
			return true
		}
	}
	return false
}

// limited returns the names in both hard and change, sorted.
func limited(hard, change amounts) []string {
	var names []string
	for name := range change {
		if _, ok := hard[name]; ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// complete counts the missing used figures, without the change. It also recounts wrong figures:
// those that the change would make negative.
func (p *plugin) complete(ctx context.Context, w *registry.Write, s *state, change amounts) error {
	var missing []string
	for name := range s.hard {
		used, ok := s.used[name]
		if delta, changes := change[name]; ok && changes {
			used = used.DeepCopy()
			used.Add(delta)
		}
		if !ok || used.Sign() < 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	counted, err := p.count(ctx, w, missing)
	if err != nil {
		return err
	}
	maps.Copy(s.used, counted)
	return nil
}

// charge adds a change to the used figures. It refuses an increase above a limit. A change that
// decreases or keeps a figure is allowed even if the figure exceeds its limit.
func (s *state) charge(w *registry.Write, quota string, names []string, change amounts) error {
	after := amounts{}
	maps.Copy(after, s.used)
	var exceeded []string
	for _, name := range names {
		delta := change[name]
		after.add(name, delta)
		used, hard := after[name], s.hard[name]
		if delta.Sign() > 0 && used.Cmp(hard) > 0 {
			exceeded = append(exceeded, name)
		}
	}
	if len(exceeded) > 0 {
		return forbidden(w, fmt.Sprintf("exceeded quota: %s, requested: %v, used: %v, limited: %v",
			quota, change.of(exceeded), s.used.of(exceeded), s.hard.of(exceeded)))
	}
	s.used = after
	return nil
}

func forbidden(w *registry.Write, text string) error {
	c := &w.Objects[0]
	resource, name := c.Type.Name().String(), ""
	if c.New != nil {
		name = c.New.Name
	}
	return &namespace.Error{
		Kind: namespace.ErrForbidden, Resource: resource, Name: name,
		Message: fmt.Sprintf("%s %q is forbidden: %s", resource, name, text),
	}
}

package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Change is a used figure that [Recount] set.
type Change struct {
	Quota string // the name of the quota
	Name  string // the limited name, such as "count/widgets.example.com"
	Was   string // the old quantity, or empty if there was none
	Is    string // the new quantity
}

// String returns a line such as "q: configmaps was 1, is 2".
func (c Change) String() string {
	if c.Was == "" {
		return fmt.Sprintf("%s: %s counted: %s", c.Quota, c.Name, c.Is)
	}
	return fmt.Sprintf("%s: %s was %s, is %s", c.Quota, c.Name, c.Was, c.Is)
}

// ErrNotInstalled is the error of [Recount] and [Run] on a registry without the plug-in.
var ErrNotInstalled = errors.New("quota: the registry has no quota plug-in: add quota.New's result to Options.Admission")

// Recount counts all used figures of the quotas in a namespace from lists, sets missing and wrong
// ones, and returns the changes, ordered by quota and name. It is exact under concurrent writes. It
// writes nothing if all figures are correct, in a dry run, and in a namespace that is not Active. On
// error, it returns the changes so far.
func Recount(ctx context.Context, r *registry.Registry, ns string) ([]Change, error) {
	return recount(ctx, r, ns, false)
}

// recount counts all figures, or only missing ones.
func recount(ctx context.Context, r *registry.Registry, ns string, missing bool) ([]Change, error) {
	if ns == "" {
		return nil, &namespace.Error{Kind: namespace.ErrBadRequest, Message: "quota: recount: the namespace is empty"}
	}
	content, err := r.Content(Resource)
	if err != nil {
		return nil, err
	}
	list, err := content.List(ctx, ns, registry.ListOptions{})
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, o := range list.Items {
		job := &recounting{missing: missing}
		o.ResourceVersion = "" // the plug-in updates the current version
		_, err := content.Update(context.WithValue(ctx, recountKey{}, job), ns, o)
		switch {
		case errors.Is(err, namespace.ErrNotFound), errors.Is(err, namespace.ErrConflict) && job.admitted:
			continue // deleted or replaced concurrently
		case err != nil:
			return changes, fmt.Errorf("quota: recount %s in namespace %s: %w", o.Name, ns, err)
		case !job.admitted:
			return changes, ErrNotInstalled
		}
		changes = append(changes, job.changes...)
	}
	return changes, nil
}

// recounting passes a recount of one quota to the plug-in in the context of an update. Only the
// plug-in has the rules, and can list and write in one commit.
type recounting struct {
	missing  bool     // count only missing figures
	admitted bool     // the plug-in received the update
	changes  []Change // in the last attempt
}

type recountKey struct{}

func recountIn(ctx context.Context) *recounting {
	job, _ := ctx.Value(recountKey{}).(*recounting)
	return job
}

// refuseRemoval refuses an update that would remove the quota: since the quota was read, a client
// has added a finalizer and deleted the quota.
func (r *recounting) refuseRemoval(quota string) error {
	r.admitted = true
	return &namespace.Error{
		Kind: namespace.ErrConflict, Resource: Resource.String(), Name: quota,
		Message: fmt.Sprintf("Operation cannot be fulfilled on %s %q: it is being deleted", Resource, quota),
	}
}

// recount replaces an update of a quota with an update of its used figures only.
func (p *plugin) recount(ctx context.Context, w *registry.Write, c *registry.ObjectChange, job *recounting) error {
	job.admitted, job.changes = true, nil
	revert(c)
	if !c.Old.DeletionTimestamp.IsZero() {
		return nil
	}
	s, _ := p.read(c.Old)
	active, err := w.RequireGate(ctx)
	if err != nil || !active {
		return err
	}
	names := slices.Sorted(maps.Keys(s.hard))
	if job.missing {
		names = slices.DeleteFunc(names, func(name string) bool { _, ok := s.used[name]; return ok })
	}
	used, err := p.count(ctx, w, names)
	if err != nil {
		return err
	}
	was := texts(s.used, s.hard)
	maps.Copy(s.used, used)
	is := texts(s.used, s.hard)
	for _, name := range names {
		if was[name] != is[name] {
			job.changes = append(job.changes, Change{Quota: c.Old.Name, Name: name, Was: was[name], Is: is[name]})
		}
	}
	return s.store(c.New)
}

// revert replaces the new version of an object with the old one.
func revert(c *registry.ObjectChange) {
	old := c.Old.DeepCopy()
	c.New.Fields = old.Fields
	c.New.GenerateName, c.New.Labels, c.New.Annotations = old.GenerateName, old.Labels, old.Annotations
	c.New.OwnerReferences, c.New.Finalizers, c.New.ManagedFields = old.OwnerReferences, old.Finalizers, old.ManagedFields
}

// count counts names from lists of their types. Invalid quantities count as zero. Objects of types
// that only another version of the service declares count too.
func (p *plugin) count(ctx context.Context, w *registry.Write, names []string) (amounts, error) {
	total := make(amounts, len(names))
	types := map[namespace.ResourceType]bool{}
	for _, name := range names {
		total[name] = zero
		for _, resource := range p.typesOf(name) {
			types[resource] = true
		}
	}
	for _, resource := range slices.SortedFunc(maps.Keys(types), namespace.ResourceType.Compare) {
		objects, err := w.List(ctx, resource)
		if errors.Is(err, namespace.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range objects {
			uses, _ := p.uses(resource, &objects[i])
			for name, q := range uses {
				if _, wanted := total[name]; wanted {
					total.add(name, q)
				}
			}
		}
	}
	return total, nil
}

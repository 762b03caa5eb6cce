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

// Change is a figure that [Recount] set.
type Change struct {
	Quota string // its name
	Name  string // such as "count/widgets.example.com"
	Was   string // the quantity before; empty: it had not been counted
	Is    string
}

// String returns the change as a line for people.
func (c Change) String() string {
	if c.Was == "" {
		return fmt.Sprintf("%s: %s counted: %s", c.Quota, c.Name, c.Is)
	}
	return fmt.Sprintf("%s: %s was %s, is %s", c.Quota, c.Name, c.Was, c.Is)
}

// ErrNotInstalled is the error of [Recount] on a registry that does not have the
// plug-in in its chain.
var ErrNotInstalled = errors.New("quota: the registry has no quota plug-in among its Options.Admission")

// Recount counts what the quotas of a namespace limit from listings, writes what
// was wrong or missing, and returns what that was, ordered by quota and name. It is
// exact while others write, and changes nothing where all is right, in a dry run,
// and in a namespace that is not Active. With an error it returns what it set before.
func Recount(ctx context.Context, r *registry.Registry, ns string) ([]Change, error) {
	return recount(ctx, r, ns, false)
}

func recount(ctx context.Context, r *registry.Registry, ns string, missing bool) ([]Change, error) {
	if r == nil {
		return nil, &namespace.Error{Kind: namespace.ErrInvalid, Message: "quota: the registry is nil"}
	}
	if ns == "" {
		return nil, &namespace.Error{Kind: namespace.ErrBadRequest, Message: "quota: a recount is of one namespace: name it"}
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
		o.ResourceVersion = "" // it is the plug-in that takes what is there
		_, err := content.Update(context.WithValue(ctx, recountKey{}, job), ns, o)
		switch {
		case errors.Is(err, namespace.ErrNotFound), errors.Is(err, namespace.ErrConflict) && job.admitted:
			continue // deleted, or replaced by another, meanwhile
		case err != nil:
			return changes, fmt.Errorf("quota: recount %s in namespace %s: %w", o.Name, ns, err)
		case !job.admitted:
			return changes, ErrNotInstalled
		}
		changes = append(changes, job.changes...)
	}
	return changes, nil
}

// recounting is a recount of one quota, carried to the plug-in in the context: it
// alone has the rules, and what it does there is part of the commit.
type recounting struct {
	missing  bool // only what was not counted
	admitted bool
	changes  []Change // of the last attempt
}

type recountKey struct{}

func recountIn(ctx context.Context) *recounting {
	job, _ := ctx.Value(recountKey{}).(*recounting)
	return job
}

// lastFinalizer refuses a recount that would remove a quota: somebody has come to
// hold it by a finalizer, and to delete it, since it was read.
func (r *recounting) lastFinalizer(quota string) error {
	r.admitted = true
	return &namespace.Error{
		Kind: namespace.ErrConflict, Resource: Resource.String(), Name: quota,
		Message: fmt.Sprintf("Operation cannot be fulfilled on %s %q: it is being deleted", Resource, quota),
	}
}

// recount makes an update of a quota one of nothing but its figures.
func (p *plugin) recount(ctx context.Context, w *registry.Write, c *registry.ObjectChange, job *recounting) error {
	job.admitted, job.changes = true, nil
	keep(c)
	if !c.Old.DeletionTimestamp.IsZero() {
		return nil
	}
	s, _ := p.read(c.Old)
	active, err := w.HoldGate(ctx)
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

// keep undoes what an update would change.
func keep(c *registry.ObjectChange) {
	old := c.Old.DeepCopy()
	c.New.Fields = old.Fields
	c.New.GenerateName, c.New.Labels, c.New.Annotations = old.GenerateName, old.Labels, old.Annotations
	c.New.OwnerReferences, c.New.Finalizers, c.New.ManagedFields = old.OwnerReferences, old.Finalizers, old.ManagedFields
}

// count counts names from listings of the types that belong to them. Quantities that
// are none count as zero. Objects of types that only another version of the service declares
// count too. A type that no version can declare has no objects.
func (p *plugin) count(ctx context.Context, w *registry.Write, names []string) (amounts, error) {
	total := make(amounts, len(names))
	types := map[namespace.ResourceType]bool{}
	for _, name := range names {
		total[name] = zero
		for _, resource := range p.feeds(name) {
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

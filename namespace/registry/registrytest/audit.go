package registrytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/store"
)

// Audit replays the history of s below "/prefix/" after a position, up to a revision. It
// checks after each commit that the rules of [Check] hold for the namespaces it wrote, and
// that the commit
//
//   - creates content only in namespaces that were Active (rule R6);
//   - changes no deletion timestamp (rule R3);
//   - ends an incarnation only by removing it; since no content outlives its namespace, none
//     appears in another incarnation (rule R8);
//   - removes a type record only together with an audit record;
//   - changes declarations of a namespace (protections, holds, graces, waivers) only together
//     with an audit record;
//   - changes no audit record, and removes audit records only if it does nothing else, or
//     writes the record of a later declaration of the same name.
//
// Audit returns the first violation. The history must not be compacted at the position
// ([store.ErrGone]), and must have reached until ([store.ErrFuture]). A nil store, an invalid
// prefix, or a negative revision is [store.ErrInvalid].
func Audit(ctx context.Context, s store.Store, prefix string, after store.Position, until store.Revision) error {
	if until < 0 {
		return fmt.Errorf("%w: the revision %d is negative", store.ErrInvalid, until)
	}
	st, position, err := load(ctx, s, prefix, after)
	if err != nil {
		return err
	}
	now, err := s.List(ctx, store.Query{Prefix: st.root, Limit: 1})
	if err != nil {
		return err
	}
	if now.Position.Revision < until {
		return fmt.Errorf("%w: the store is at revision %d, before %d", store.ErrFuture, now.Position.Revision, until)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for change, err := range s.Watch(ctx, st.root, position) {
		if err != nil {
			return err
		}
		if len(change.Events) > 0 && change.Position.Revision <= until {
			if err := st.audit(change); err != nil {
				return fmt.Errorf("revision %d: %w", change.Position.Revision, err)
			}
		}
		if change.Position.Revision >= until {
			return nil
		}
	}
	return errors.New("the watch ended without an error")
}

// audit checks one commit, applies it, and checks the state of the namespaces it wrote.
func (st *state) audit(change store.Change) error {
	for _, e := range change.Events {
		if err := st.auditEvent(change, e); err != nil {
			return err
		}
	}
	for _, e := range change.Events {
		if e.Deleted {
			st.remove(e.Key)
		} else {
			st.put(e.Key, e.Value)
		}
	}
	checked := map[string]bool{}
	for _, e := range change.Events {
		name := st.nameOf(e.Key)
		if sp := st.spaces[name]; name != "" && sp != nil && !checked[name] {
			checked[name] = true
			if wrong := sp.violations(name); len(wrong) > 0 {
				return errors.Join(wrong...)
			}
		}
	}
	var wrong []error
	if slices.ContainsFunc(change.Events, func(e store.Event) bool { return e.Prev == nil || e.Deleted && st.isTypeRecord(e.Key) }) {
		wrong = st.typeViolations()
	}
	return errors.Join(append(wrong, st.unknown...)...)
}

// auditEvent checks one event against the state before its commit.
func (st *state) auditEvent(change store.Change, e store.Event) error {
	parts := st.segments(e.Key)
	isNamespace := len(parts) == 2 && parts[0] == "namespaces"
	switch {
	case st.isAudit(e.Key) && e.Deleted && !st.onlyRemovesAudit(change) && !st.replacesDeclaration(change, e):
		return fmt.Errorf("%q was removed by a commit that does more: audit records are removed by commits of their own", e.Key)
	case st.isAudit(e.Key) && e.Prev != nil && !e.Deleted:
		return fmt.Errorf("%q was changed: audit records must not change", e.Key)
	case st.isTypeRecord(e.Key) && e.Deleted && !st.hasRecord(change, types):
		return fmt.Errorf("%q was removed without an audit record in the same commit", e.Key)
	case slices.Contains(ignored, parts[0]) || e.Deleted:
	case len(parts) == 3 && e.Prev == nil:
		if sp := st.spaces[parts[1]]; sp == nil || sp.gate == nil {
			return fmt.Errorf("%q was created in a namespace that is not Active (R6)", e.Key)
		}
	case isNamespace:
		return st.auditNamespace(change, e, parts[1])
	}
	return nil
}

// auditNamespace checks an event that creates or replaces a namespace.
func (st *state) auditNamespace(change store.Change, e store.Event, name string) error {
	var was object
	is := parseNamespace(e.Value)
	if e.Prev != nil {
		was = parseNamespace(e.Prev.Value)
		if was.Metadata.UID != is.Metadata.UID {
			return fmt.Errorf("%q became another incarnation without being removed (R8)", e.Key)
		}
		if t := was.Metadata.DeletionTimestamp; was.deleting() && !t.Equal(is.Metadata.DeletionTimestamp) {
			return fmt.Errorf("the deletion timestamp at %q changed from %v to %v (R3)", e.Key, t, is.Metadata.DeletionTimestamp)
		}
	}
	if !maps.Equal(was.declarations(), is.declarations()) && !st.hasRecord(change, name) {
		return fmt.Errorf("the declarations at %q changed without an audit record in the same commit", e.Key)
	}
	return nil
}

func (st *state) isTypeRecord(key string) bool { return strings.HasPrefix(key, st.root+types+"/") }

// isAudit reports whether a key is of an audit record or its inventory.
func (st *state) isAudit(key string) bool {
	return strings.HasPrefix(key, st.root+".audit/") || strings.HasPrefix(key, st.root+".inventory/")
}

// hasRecord reports whether a commit writes an audit record about a name.
func (st *state) hasRecord(change store.Change, name string) bool {
	return slices.ContainsFunc(change.Events, func(e store.Event) bool {
		return !e.Deleted && strings.HasPrefix(e.Key, st.root+".audit/"+name+"/")
	})
}

func (st *state) onlyRemovesAudit(change store.Change) bool {
	return !slices.ContainsFunc(change.Events, func(e store.Event) bool { return !e.Deleted || !st.isAudit(e.Key) })
}

// replacesDeclaration reports whether a commit removes the record of a declaration and writes
// another one about the same name.
func (st *state) replacesDeclaration(change store.Change, removed store.Event) bool {
	var record struct{ Action string }
	name, _, _ := strings.Cut(strings.TrimPrefix(removed.Key, st.root+".audit/"), "/")
	return removed.Prev != nil && json.Unmarshal(removed.Prev.Value, &record) == nil && record.Action == "declared" && st.hasRecord(change, name)
}

// declarations returns the annotations that declare something.
func (o object) declarations() map[string]string {
	declared := map[string]string{}
	for key, value := range o.Metadata.Annotations {
		if key == declare.HoldAnnotation || key == declare.GraceAnnotation ||
			strings.HasPrefix(key, declare.ProtectionPrefix) || strings.HasPrefix(key, declare.WaiverPrefix) {
			declared[key] = value
		}
	}
	return declared
}

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

// Audit replays the history of s below "/prefix/" after a position, up to a
// revision, and holds every single commit against the rules: what [Check] looks
// at holds after each of them, and
//
//   - content was only ever created while its namespace was Active (rule R6),
//   - a deletion timestamp never changed (rule R3),
//   - a type record was only removed with an audit record in the same commit,
//   - declarations of a namespace (protections, holds, graces, waivers) changed only with
//     an audit record in the same commit, and no record ever changed; a record may be
//     removed by a commit that does nothing else, or by a commit that writes the record of
//     a later declaration of the same name,
//   - an incarnation ended only by removal; as no content outlives its namespace,
//     none of one incarnation was found in another (rule R8).
//
// It returns the first commit that breaks a rule. The history must not be
// compacted before after ([store.ErrGone]), and have come to until
// ([store.ErrFuture]). A nil store, a prefix that no registry can have, or a
// negative revision is [store.ErrInvalid].
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
		return fmt.Errorf("%w: it is at revision %d, not yet at %d", store.ErrFuture, now.Position.Revision, until)
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

// state is all entries below a prefix.
type state struct {
	root    string
	spaces  map[string]*space
	cluster map[string]document // cluster-scoped content by key
	types   map[string]string   // type records by type
	strange []error             // keys that have no place in the layout
}

// load reads the state at a position, and returns that position.
func load(ctx context.Context, s store.Store, prefix string, at store.Position) (*state, store.Position, error) {
	if s == nil {
		return nil, store.Position{}, fmt.Errorf("%w: the store is nil", store.ErrInvalid)
	}
	if prefix == "" || strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") {
		return nil, store.Position{}, fmt.Errorf("%w: %.80q is not the prefix of a registry: one or more path segments", store.ErrInvalid, prefix)
	}
	st := &state{root: "/" + prefix + "/", spaces: map[string]*space{}, cluster: map[string]document{}, types: map[string]string{}}
	q := store.Query{Prefix: st.root, Limit: 1000, At: at}
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return nil, store.Position{}, err
		}
		for _, e := range page.Entries {
			st.put(e.Key, e.Value)
		}
		if !page.More || len(page.Entries) == 0 {
			return st, page.Position, nil
		}
		q.At, q.After = page.Position, page.Entries[len(page.Entries)-1].Key
	}
}

func (st *state) space(name string) *space {
	sp := st.spaces[name]
	if sp == nil {
		sp = &space{content: map[string]document{}}
		st.spaces[name] = sp
	}
	return sp
}

// touched returns the name that a key belongs to; empty for cluster-scoped
// content.
func (st *state) touched(key string) string {
	parts := strings.Split(strings.TrimPrefix(key, st.root), "/")
	switch {
	case parts[0] == types:
		return ""
	case len(parts) == 3, len(parts) == 2 && (parts[0] == "namespaces" || strings.HasPrefix(parts[0], ".")):
		return parts[1]
	}
	return ""
}

// types is the first segment of the keys of type records.
const types = ".types"

// beside are the first segments of what other packages keep below the prefix.
var beside = []string{".audit", ".inventory", ".parties", ".replicas"}

func (st *state) put(key string, value []byte) {
	parts := strings.Split(strings.TrimPrefix(key, st.root), "/")
	text := string(value)
	switch {
	case slices.Contains(beside, parts[0]):
	case len(parts) == 3 && parts[0] != "namespaces" && !strings.HasPrefix(parts[0], "."):
		st.space(parts[1]).content[key] = parse(value)
	case len(parts) == 2 && parts[0] == types:
		st.types[parts[1]] = text
	case len(parts) != 2:
		st.strange = append(st.strange, fmt.Errorf("the key %q has no place in the layout", key))
	case parts[0] == "namespaces":
		d := parseNamespace(value)
		st.space(parts[1]).namespace = &d
	case parts[0] == ".gate":
		st.space(parts[1]).gate = &text
	case parts[0] == ".terminating":
		st.space(parts[1]).index = &text
	case parts[0] == ".hold":
		st.space(parts[1]).hold = &text
	default:
		st.cluster[key] = parse(value)
	}
}

func (st *state) remove(key string) {
	parts := strings.Split(strings.TrimPrefix(key, st.root), "/")
	name := st.touched(key)
	switch {
	case slices.Contains(beside, parts[0]):
		return
	case parts[0] == types:
		delete(st.types, parts[1])
		return
	case name == "":
		delete(st.cluster, key)
		return
	}
	sp := st.space(name)
	switch {
	case len(parts) == 3:
		delete(sp.content, key)
	case parts[0] == "namespaces":
		sp.namespace = nil
	case parts[0] == ".gate":
		sp.gate = nil
	case parts[0] == ".terminating":
		sp.index = nil
	case parts[0] == ".hold":
		sp.hold = nil
	}
	if sp.empty() {
		delete(st.spaces, name)
	}
}

// audit applies one commit, and holds it and the state after it against the rules.
func (st *state) audit(change store.Change) error {
	for _, e := range change.Events {
		if err := st.allowed(e); err != nil {
			return err
		}
		if e.Deleted && st.record(e.Key) && !st.forgets(change) && !st.replaces(change, e) {
			return fmt.Errorf("%q was removed by a commit that does more: records are forgotten by themselves", e.Key)
		}
		if strings.HasPrefix(e.Key, st.root+types+"/") && e.Deleted && !st.records(change, types) {
			return fmt.Errorf("%q was removed, and no record of that is in the commit", e.Key)
		}
		if name, declares := st.declares(e); declares && !st.records(change, name) {
			return fmt.Errorf("%q was written with other declarations than before, and no record of that is in the commit", e.Key)
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
		name := st.touched(e.Key)
		sp := st.spaces[name]
		if name == "" || sp == nil {
			continue
		}
		if !checked[name] {
			checked[name] = true
			if wrong := sp.faults(name); len(wrong) > 0 {
				return errors.Join(wrong...)
			}
		}
	}
	return errors.Join(append(st.unrecorded(change), st.strange...)...)
}

// unrecorded returns the content that a commit has left without a type record.
func (st *state) unrecorded(change store.Change) []error {
	for _, e := range change.Events {
		if e.Prev == nil || e.Deleted && strings.HasPrefix(e.Key, st.root+types+"/") {
			return st.typeFaults()
		}
	}
	return nil
}

// declares reports whether an event changes what the annotations of a namespace declare.
func (st *state) declares(e store.Event) (name string, declares bool) {
	name, ok := strings.CutPrefix(e.Key, st.root+"namespaces/")
	if !ok || e.Deleted {
		return "", false
	}
	var was document
	if e.Prev != nil {
		was = parseNamespace(e.Prev.Value)
	}
	return name, !maps.Equal(was.declarations(), parseNamespace(e.Value).declarations())
}

// records reports whether a record of a name is in the commit.
func (st *state) records(change store.Change, name string) bool {
	return slices.ContainsFunc(change.Events, func(e store.Event) bool {
		return !e.Deleted && strings.HasPrefix(e.Key, st.root+".audit/"+name+"/")
	})
}

// record reports whether a key is of a record, or of its inventory.
func (st *state) record(key string) bool {
	return strings.HasPrefix(key, st.root+".audit/") || strings.HasPrefix(key, st.root+".inventory/")
}

// forgets reports whether a commit removes records and does nothing else.
func (st *state) forgets(change store.Change) bool {
	return !slices.ContainsFunc(change.Events, func(e store.Event) bool { return !e.Deleted || !st.record(e.Key) })
}

// replaces reports whether a commit removes the record of a declaration and writes another
// one of the same name.
func (st *state) replaces(change store.Change, removed store.Event) bool {
	var record struct{ Action string }
	name, _, _ := strings.Cut(strings.TrimPrefix(removed.Key, st.root+".audit/"), "/")
	return removed.Prev != nil && json.Unmarshal(removed.Prev.Value, &record) == nil && record.Action == "declared" && st.records(change, name)
}

// declarations are the annotations that declare something about the namespace.
func (d document) declarations() map[string]string {
	of := map[string]string{}
	for key, value := range d.Metadata.Annotations {
		if key == declare.HoldAnnotation || key == declare.GraceAnnotation ||
			strings.HasPrefix(key, declare.ProtectionPrefix) || strings.HasPrefix(key, declare.WaiverPrefix) {
			of[key] = value
		}
	}
	return of
}

// allowed holds one event against the state before its commit.
func (st *state) allowed(e store.Event) error {
	parts := strings.Split(strings.TrimPrefix(e.Key, st.root), "/")
	switch {
	case st.record(e.Key):
		if e.Prev != nil && !e.Deleted {
			return fmt.Errorf("%q was changed: records stay as they were written", e.Key)
		}
	case slices.Contains(beside, parts[0]):
	case len(parts) == 3 && e.Prev == nil && !e.Deleted:
		if sp := st.spaces[parts[1]]; sp == nil || sp.gate == nil {
			return fmt.Errorf("%q was created in a namespace that is not Active (R6)", e.Key)
		}
	case len(parts) == 2 && parts[0] == "namespaces" && e.Prev != nil && !e.Deleted:
		was, is := parseNamespace(e.Prev.Value), parseNamespace(e.Value)
		if was.Metadata.UID != is.Metadata.UID {
			return fmt.Errorf("%q became another incarnation without being removed (R8)", e.Key)
		}
		if t := was.Metadata.DeletionTimestamp; t != "" && t != is.Metadata.DeletionTimestamp {
			return fmt.Errorf("the deletion timestamp at %q changed from %q to %q (R3)", e.Key, t, is.Metadata.DeletionTimestamp)
		}
	}
	return nil
}

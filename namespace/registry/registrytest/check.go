// Package registrytest holds the rules of package registry against what is in the
// store, looking at the raw entries only: [Check] at a state, [Audit] at every
// revision of a history. Tests end with them, also those of hosts and of other
// packages that work through a registry.
package registrytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/store"
)

// Check returns everything in the present state of s below "/prefix/" that breaks
// a rule; nil when nothing does:
//
//   - a gate exists exactly for each Active namespace and holds its uid (rule R6),
//   - an index entry exists exactly for each terminating one and holds its uid,
//   - an entry in the index of holds exists exactly for each Active one with a hold that
//     can be read, and holds its end and the uid,
//   - the phase says what the deletion timestamp says (rule R2),
//   - no terminating namespace or object is left that nothing holds (rule R1),
//   - no content is in a namespace that does not exist,
//   - each type that has content in a namespace is on record (rule R7),
//   - documents say the name, namespace and uid of the place where they are.
//
// What other packages keep beside it (audit, parties, replicas) is not looked at.
//
// A nil store, or a prefix that no registry can have, is [store.ErrInvalid].
func Check(ctx context.Context, s store.Store, prefix string) error {
	st, _, err := load(ctx, s, prefix, store.Position{})
	if err != nil {
		return err
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(st.spaces)) {
		wrong = append(wrong, st.spaces[name].faults(name)...)
	}
	for _, key := range slices.Sorted(maps.Keys(st.cluster)) {
		wrong = append(wrong, st.cluster[key].contentFaults(key, "")...)
	}
	return errors.Join(slices.Concat(wrong, st.typeFaults(), st.strange)...)
}

// typeFaults returns the faults of the type records.
func (st *state) typeFaults() []error {
	var wrong []error
	for name, is := range st.types {
		if is != "active" && is != "retiring" {
			wrong = append(wrong, fmt.Errorf("the record of the type %s is %q, should be active or retiring", name, is))
		}
	}
	for _, sp := range st.spaces {
		for key := range sp.content {
			name, _, _ := strings.Cut(strings.TrimPrefix(key, st.root), "/")
			if _, ok := st.types[name]; !ok {
				wrong = append(wrong, fmt.Errorf("%q is stored, but its type is not on record (R7)", key))
			}
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return wrong
}

// document is what the rules look at.
type document struct {
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
		Annotations       map[string]string `json:"annotations"`
		Finalizers        []string          `json:"finalizers"`
	} `json:"metadata"`
	Spec struct {
		Finalizers []string `json:"finalizers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
	broken error // it cannot be read
}

func parse(value []byte) document {
	// Content may have any spec and status, so they are read apart.
	var whole map[string]json.RawMessage
	var d document
	if d.broken = json.Unmarshal(value, &whole); d.broken == nil {
		d.broken = json.Unmarshal(whole["metadata"], &d.Metadata)
	}
	return d
}

func parseNamespace(value []byte) document {
	var d document
	d.broken = json.Unmarshal(value, &d)
	return d
}

// space is all that belongs to one name of a namespace.
type space struct {
	namespace *document
	gate      *string
	index     *string
	hold      *string
	content   map[string]document // by key
}

func (sp *space) empty() bool {
	return sp.namespace == nil && sp.gate == nil && sp.index == nil && sp.hold == nil && len(sp.content) == 0
}

// faults returns what is wrong with a name and all that belongs to it.
func (sp *space) faults(name string) []error {
	var wrong []error
	fault := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("namespace %q: "+format, append([]any{name}, args...)...))
	}
	n := sp.namespace
	if n == nil {
		if sp.gate != nil {
			fault("it does not exist, but its gate does (R6)")
		}
		if sp.index != nil {
			fault("it does not exist, but its index entry does")
		}
		if sp.hold != nil {
			fault("it does not exist, but its entry in the index of holds does")
		}
		for _, key := range slices.Sorted(maps.Keys(sp.content)) {
			fault("it does not exist, but it has content at %q", key)
		}
		return wrong
	}
	for _, err := range n.faults("the object", "", name) {
		fault("%w", err)
	}
	deleting := n.Metadata.DeletionTimestamp != ""
	if phase := map[bool]string{false: "Active", true: "Terminating"}[deleting]; n.Status.Phase != phase {
		fault("the phase is %q, should be %q (R2)", n.Status.Phase, phase)
	}
	if deleting && len(n.Spec.Finalizers)+len(n.Metadata.Finalizers) == 0 {
		fault("it is terminating, and nothing holds it, but it is not removed (R1)")
	}
	for _, e := range []struct {
		what string
		want bool
		is   *string
	}{{"gate", !deleting, sp.gate}, {"index entry", deleting, sp.index}} {
		switch {
		case e.want && e.is == nil:
			fault("the %s is missing (R6)", e.what)
		case !e.want && e.is != nil:
			fault("there must be no %s in this phase (R6)", e.what)
		case e.want && *e.is != n.Metadata.UID:
			fault("the %s is of uid %q, the object of %q (R8)", e.what, *e.is, n.Metadata.UID)
		}
	}
	switch want := n.hold(); {
	case want != "" && sp.hold == nil:
		fault("its entry in the index of holds is missing, which should be %q", want)
	case want == "" && sp.hold != nil:
		fault("there must be no entry in the index of holds: it is not on hold")
	case want != "" && *sp.hold != want:
		fault("its entry in the index of holds is %q, should be %q", *sp.hold, want)
	}
	for _, key := range slices.Sorted(maps.Keys(sp.content)) {
		for _, err := range sp.content[key].contentFaults(key, name) {
			fault("%w", err)
		}
	}
	return wrong
}

// hold returns the entry that a namespace is to have in the index of holds; empty:
// none.
func (d document) hold() string {
	h, held, err := declare.HoldOf(namespace.Meta{Annotations: d.Metadata.Annotations})
	if !held || err != nil || d.Metadata.DeletionTimestamp != "" {
		return ""
	}
	return h.Until.Format(time.RFC3339Nano) + " " + d.Metadata.UID
}

// contentFaults returns what is wrong with a content object at its key.
func (d document) contentFaults(key, ns string) []error {
	wrong := d.faults(key, ns, key[strings.LastIndexByte(key, '/')+1:])
	if d.Metadata.DeletionTimestamp != "" && len(d.Metadata.Finalizers) == 0 {
		wrong = append(wrong, fmt.Errorf("%s: it is being deleted, and nothing holds it, but it is not removed", key))
	}
	return wrong
}

// faults returns what is wrong with a document at its place.
func (d document) faults(place, ns, name string) []error {
	m := d.Metadata
	var wrong []error
	for _, f := range []struct {
		broken bool
		what   string
	}{
		{d.broken != nil, fmt.Sprintf("it cannot be read: %v", d.broken)},
		{m.Name != name, fmt.Sprintf("it says that its name is %q", m.Name)},
		{m.Namespace != ns, fmt.Sprintf("it says that its namespace is %q", m.Namespace)},
		{m.UID == "", "it has no uid"},
		{m.ResourceVersion != "", "its resourceVersion is stored, which is that of the entry"},
	} {
		if f.broken {
			wrong = append(wrong, fmt.Errorf("%s: %s", place, f.what))
		}
	}
	return wrong
}

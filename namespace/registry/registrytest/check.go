// Package registrytest checks the stored data of package registry against the rules: [Check]
// examines the current state, [Audit] every revision of a history. Both read only the raw
// entries of the store. Use them at the end of tests of anything that works on a registry.
package registrytest

import (
	"bytes"
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
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/registry/internal/document"
	"github.com/nslifecycle/nslifecycle/store"
)

// Value returns the stored form of a namespace or an object in JSON form, for tests that write
// to the store directly. The object must have a uid. A header of the stored form, and
// metadata.resourceVersion, are ignored.
func Value(doc []byte) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, doc); err != nil {
		return nil, err
	}
	var o registry.Object
	if err := json.Unmarshal(compact.Bytes(), &o); err != nil {
		return nil, err
	}
	delete(o.Fields, "#")
	return document.Encode(o.TypeMeta, o.Meta, document.AppendFields(nil, o.Fields))
}

// Check returns all violations of the rules in the current state of s below "/prefix/":
//
//   - a gate exists exactly for each Active namespace and has its uid (rule R6);
//   - a termination entry exists exactly for each Terminating namespace and has its uid;
//   - an entry of the index of holds exists exactly for each Active namespace with a readable
//     hold, and has the end of the hold and the uid;
//   - the phase follows from the deletion timestamp (rule R2);
//   - nothing is left that is being deleted and has no finalizers (rule R1);
//   - no content is in a namespace that does not exist;
//   - each type that has content in a namespace is on record (rule R7);
//   - each object has the name and the namespace of its key, a uid, and a header that matches.
//
// Check ignores the keys of other packages (audit, parties, replicas). A nil store, or an
// invalid prefix, is [store.ErrInvalid].
func Check(ctx context.Context, s store.Store, prefix string) error {
	st, _, err := load(ctx, s, prefix, store.Position{})
	if err != nil {
		return err
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(st.spaces)) {
		wrong = append(wrong, st.spaces[name].violations(name)...)
	}
	for _, key := range slices.Sorted(maps.Keys(st.cluster)) {
		wrong = append(wrong, st.cluster[key].contentViolations(key, "")...)
	}
	return errors.Join(slices.Concat(wrong, st.typeViolations(), st.unknown)...)
}

// state is all entries below a prefix.
type state struct {
	root    string
	spaces  map[string]*space
	cluster map[string]object // cluster-scoped content by key
	types   map[string]string // type records by type
	unknown []error           // about keys outside of the layout
}

const (
	types  = ".types"  // the first segment of the keys of type records
	format = ".format" // the key of the format
)

// ignored are the first segments of the keys of other packages.
var ignored = []string{".audit", ".inventory", ".parties", ".replicas"}

// load reads the state at a position, and returns that position.
func load(ctx context.Context, s store.Store, prefix string, at store.Position) (*state, store.Position, error) {
	if s == nil {
		return nil, store.Position{}, fmt.Errorf("%w: the store is nil", store.ErrInvalid)
	}
	if prefix == "" || strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") {
		return nil, store.Position{}, fmt.Errorf("%w: %.80q is not the prefix of a registry: one or more path segments", store.ErrInvalid, prefix)
	}
	st := &state{root: "/" + prefix + "/", spaces: map[string]*space{}, cluster: map[string]object{}, types: map[string]string{}}
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

func (st *state) segments(key string) []string {
	return strings.Split(strings.TrimPrefix(key, st.root), "/")
}

// nameOf returns the namespace that a key belongs to, and "" for other keys.
func (st *state) nameOf(key string) string {
	parts := st.segments(key)
	switch {
	case parts[0] == types:
		return ""
	case len(parts) == 3, len(parts) == 2 && (parts[0] == "namespaces" || strings.HasPrefix(parts[0], ".")):
		return parts[1]
	}
	return ""
}

func (st *state) space(name string) *space {
	sp := st.spaces[name]
	if sp == nil {
		sp = &space{content: map[string]object{}}
		st.spaces[name] = sp
	}
	return sp
}

func (st *state) put(key string, value []byte) {
	parts := st.segments(key)
	text := string(value)
	switch {
	case slices.Contains(ignored, parts[0]) || len(parts) == 1 && parts[0] == format:
	case len(parts) == 3 && parts[0] != "namespaces" && !strings.HasPrefix(parts[0], "."):
		st.space(parts[1]).content[key] = parse(value)
	case len(parts) == 2 && parts[0] == types:
		st.types[parts[1]] = text
	case len(parts) != 2:
		st.unknown = append(st.unknown, fmt.Errorf("the key %q is not in the layout", key))
	case parts[0] == "namespaces":
		n := parseNamespace(value)
		st.space(parts[1]).namespace = &n
	case parts[0] == ".gate":
		st.space(parts[1]).gate = &text
	case parts[0] == ".terminating":
		st.space(parts[1]).termination = &text
	case parts[0] == ".hold":
		st.space(parts[1]).hold = &text
	default:
		st.cluster[key] = parse(value)
	}
}

func (st *state) remove(key string) {
	parts := st.segments(key)
	name := st.nameOf(key)
	switch {
	case slices.Contains(ignored, parts[0]):
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
		sp.termination = nil
	case parts[0] == ".hold":
		sp.hold = nil
	}
	if sp.empty() {
		delete(st.spaces, name)
	}
}

// typeViolations returns the violations of the type records.
func (st *state) typeViolations() []error {
	var wrong []error
	for name, is := range st.types {
		if is != "active" && is != "retiring" {
			wrong = append(wrong, fmt.Errorf("the record of the type %s is %q, should be active or retiring", name, is))
		}
	}
	for _, sp := range st.spaces {
		for key := range sp.content {
			if name := st.segments(key)[0]; st.types[name] == "" {
				wrong = append(wrong, fmt.Errorf("%q is stored, but its type is not on record (R7)", key))
			}
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return wrong
}

// object is the part of a stored object that the rules refer to.
type object struct {
	Metadata namespace.Meta
	Spec     namespace.Spec
	Status   namespace.Status
	broken   error // the value is not an object
}

// parse parses content, whose spec and status may be any JSON, and whose fields may be any
// other spelling of "metadata".
func parse(value []byte) object {
	var o object
	var fields map[string]json.RawMessage
	if o.broken = json.Unmarshal(value, &fields); o.broken == nil && fields["metadata"] != nil {
		o.broken = json.Unmarshal(fields["metadata"], &o.Metadata)
	}
	if o.broken == nil && o.Metadata.UID != "" && !headerMatches(value) {
		o.broken = errors.New("its header does not match")
	}
	return o
}

// headerMatches reports whether value is the stored form of the object that it contains.
func headerMatches(value []byte) bool {
	d, err := document.Parse(value)
	if err != nil {
		return false
	}
	meta, err := d.Meta()
	if err != nil {
		return false
	}
	fields, err := d.Fields()
	if err != nil {
		return false
	}
	again, err := document.Encode(d.TypeMeta(), meta, document.AppendFields(nil, fields))
	return err == nil && bytes.Equal(again, value)
}

func parseNamespace(value []byte) object {
	o := parse(value)
	var rest struct {
		Spec   namespace.Spec
		Status namespace.Status
	}
	if err := json.Unmarshal(value, &rest); o.broken == nil {
		o.broken = err
	}
	o.Spec, o.Status = rest.Spec, rest.Status
	return o
}

func (o object) deleting() bool { return !o.Metadata.DeletionTimestamp.IsZero() }

// violations returns the violations of an object with its key.
func (o object) violations(place, ns, name string) []error {
	m := o.Metadata
	var wrong []error
	for _, v := range []struct {
		broken bool
		text   string
	}{
		{o.broken != nil, fmt.Sprintf("it cannot be read: %v", o.broken)},
		{m.Name != name, fmt.Sprintf("its name is %q", m.Name)},
		{m.Namespace != ns, fmt.Sprintf("its namespace is %q", m.Namespace)},
		{m.UID == "", "it has no uid"},
	} {
		if v.broken {
			wrong = append(wrong, fmt.Errorf("%s: %s", place, v.text))
		}
	}
	return wrong
}

// contentViolations returns the violations of a content object.
func (o object) contentViolations(key, ns string) []error {
	wrong := o.violations(key, ns, key[strings.LastIndexByte(key, '/')+1:])
	if o.deleting() && o.Metadata.Finalizers.IsZero() {
		wrong = append(wrong, fmt.Errorf("%s: it is being deleted and has no finalizers, but it is not removed", key))
	}
	return wrong
}

// space is all entries of one name of a namespace.
type space struct {
	namespace   *object
	gate        *string
	termination *string
	hold        *string
	content     map[string]object // by key
}

func (sp *space) empty() bool {
	return sp.namespace == nil && sp.gate == nil && sp.termination == nil && sp.hold == nil && len(sp.content) == 0
}

func (sp *space) violations(name string) []error {
	var wrong []error
	add := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("namespace %q: "+format, append([]any{name}, args...)...))
	}
	n := sp.namespace
	if n == nil {
		for _, e := range []struct {
			text  string
			value *string
		}{{"its gate does (R6)", sp.gate}, {"its termination entry does", sp.termination}, {"its entry in the index of holds does", sp.hold}} {
			if e.value != nil {
				add("it does not exist, but %s", e.text)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(sp.content)) {
			add("it does not exist, but it has content at %q", key)
		}
		return wrong
	}
	for _, err := range n.violations("the object", "", name) {
		add("%w", err)
	}
	if phase := (namespace.Namespace{Meta: n.Metadata}).Phase(); n.Status.Phase != phase {
		add("the phase is %q, should be %q (R2)", n.Status.Phase, phase)
	}
	if n.deleting() && n.Spec.Finalizers.IsZero() && n.Metadata.Finalizers.IsZero() {
		add("it is terminating and has no finalizers, but it is not removed (R1)")
	}
	for _, e := range []struct {
		name string
		want bool
		is   *string
	}{{"gate", !n.deleting(), sp.gate}, {"termination entry", n.deleting(), sp.termination}} {
		switch {
		case e.want && e.is == nil:
			add("the %s is missing (R6)", e.name)
		case !e.want && e.is != nil:
			add("there must be no %s in this phase (R6)", e.name)
		case e.want && *e.is != n.Metadata.UID:
			add("the %s is of uid %q, the object of %q (R8)", e.name, *e.is, n.Metadata.UID)
		}
	}
	switch want := n.hold(); {
	case want != "" && sp.hold == nil:
		add("its entry in the index of holds is missing, should be %q", want)
	case want == "" && sp.hold != nil:
		add("there must be no entry in the index of holds: it is not on hold")
	case want != "" && *sp.hold != want:
		add("its entry in the index of holds is %q, should be %q", *sp.hold, want)
	}
	for _, key := range slices.Sorted(maps.Keys(sp.content)) {
		for _, err := range sp.content[key].contentViolations(key, name) {
			add("%w", err)
		}
	}
	return wrong
}

// hold returns the entry that a namespace must have in the index of holds, or "".
func (o object) hold() string {
	h, held, err := declare.HoldOf(o.Metadata)
	if !held || err != nil || o.deleting() {
		return ""
	}
	return h.Until.Format(time.RFC3339Nano) + " " + o.Metadata.UID
}

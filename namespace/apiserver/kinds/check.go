package kinds

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Check reports the first declaration of list that a server cannot serve, as an
// error of kind [namespace.ErrInvalid] that says what to change. Namespaces may be
// in the list or not: they are always served, and their names are taken.
//
// In one group, and in the short forms that clients type, every name means one
// kind: resources, singulars and short names must not repeat each other.
func Check(list []Kind) error {
	seen := taken{kinds: map[string]string{}, names: map[string]string{}}
	itself := Namespaces()
	if err := seen.add(itself); err != nil {
		return err
	}
	declared := false
	for _, k := range list {
		if k.Name() == itself.Name() && !declared && k.Kind == itself.Kind && k.Version == itself.Version && !k.Namespaced {
			declared = true
			continue
		}
		if err := k.check(); err != nil {
			return err
		}
		if err := seen.add(k); err != nil {
			return err
		}
	}
	return nil
}

func (k Kind) check() error {
	if err := k.checkNames(); err != nil {
		return err
	}
	if (k.Object == nil) != (k.List == nil) {
		return k.invalid("Object and List must both be set, or both be nil")
	}
	if k.BuiltIn() {
		if err := k.checkGo(); err != nil {
			return err
		}
	}
	if len(k.Schema) > 0 {
		if k.BuiltIn() {
			return k.invalid("a kind with Go types must have no Schema: the types are its schema")
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(k.Schema, &object); err != nil || object == nil {
			return k.invalid("Schema must be a JSON object")
		}
	}
	return k.checkColumns()
}

func (k Kind) checkNames() error {
	if wrong := syntax.Label(k.Resource); len(wrong) > 0 {
		return k.invalid("Resource %.80q: %s", k.Resource, strings.Join(wrong, "; "))
	}
	if wrong := syntax.Label(k.Version); len(wrong) > 0 {
		return k.invalid("Version %.80q: %s", k.Version, strings.Join(wrong, "; "))
	}
	if k.Kind == "" {
		return k.invalid("Kind must not be empty")
	}
	if wrong := syntax.Label(strings.ToLower(k.Kind)); len(wrong) > 0 {
		return k.invalid("Kind %.80q, in lower case: %s", k.Kind, strings.Join(wrong, "; "))
	}
	if k.Group != "" {
		if wrong := syntax.Subdomain(k.Group); len(wrong) > 0 {
			return k.invalid("Group %.80q: %s", k.Group, strings.Join(wrong, "; "))
		}
	}
	for _, name := range k.words() {
		if wrong := syntax.Label(name); len(wrong) > 0 {
			return k.invalid("the singular, short name or category %.80q: %s", name, strings.Join(wrong, "; "))
		}
	}
	return nil
}

func (k Kind) words() []string {
	words := append([]string{k.SingularName()}, k.ShortNames...)
	return append(words, k.Categories...)
}

// SingularName returns the singular, which defaults to the kind in lower case.
func (k Kind) SingularName() string {
	if k.Singular != "" {
		return k.Singular
	}
	return strings.ToLower(k.Kind)
}

// message is what a Go type needs for protobuf.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
	Reset()
}

func (k Kind) checkGo() error {
	if _, ok := k.Object.(message); !ok {
		return k.invalid("the Go type %T has no protobuf form", k.Object)
	}
	if _, ok := k.Object.(metav1.ObjectMetaAccessor); !ok {
		return k.invalid("the Go type %T has no metadata", k.Object)
	}
	if _, ok := k.List.(metav1.ListMetaAccessor); !ok {
		return k.invalid("the Go type %T is no list", k.List)
	}
	return nil
}

func (k Kind) checkColumns() error {
	seen := map[string]bool{}
	for i, c := range k.Columns {
		switch {
		case c.Name == "":
			return k.invalid("Columns[%d] has no Name", i)
		case seen[c.Name]:
			return k.invalid("column %.80q is declared twice", c.Name)
		case c.Value == nil:
			return k.invalid("column %.80q has no Value", c.Name)
		case c.Priority < 0:
			return k.invalid("column %.80q: Priority is %d, it must not be negative", c.Name, c.Priority)
		}
		seen[c.Name] = true
		switch c.Type {
		case "", "string", "integer", "number", "boolean", "date":
		default:
			return k.invalid("column %.80q: Type is %.80q, it must be string, integer, number, boolean or date", c.Name, c.Type)
		}
	}
	return nil
}

func (k Kind) invalid(format string, args ...any) error {
	return &namespace.Error{
		Kind: namespace.ErrInvalid, Resource: excerpt(k.Name().String()),
		Message: fmt.Sprintf("kind %q: ", excerpt(k.Name().String())) + fmt.Sprintf(format, args...),
	}
}

// taken are the names that are in use, and who uses them.
type taken struct{ kinds, names map[string]string }

// add takes the names of k.
func (t taken) add(k Kind) error {
	who := k.Name().String()
	kind := k.Group + "/" + k.Version + "/" + k.Kind
	if other, ok := t.kinds[kind]; ok {
		return k.invalid("the kind %.80q of %s is that of %s already", k.Kind, k.APIVersion(), other)
	}
	t.kinds[kind] = who
	mine := map[string]bool{}
	for _, name := range append([]string{k.Resource, k.SingularName()}, k.ShortNames...) {
		full := name + "." + k.Group
		if mine[full] {
			continue // a word that has no plural
		}
		mine[full] = true
		if other, ok := t.names[full]; ok {
			return k.invalid("the name %.80q means %s already", name, other)
		}
		t.names[full] = who
	}
	return nil
}

// excerpt shortens text from hosts and clients for messages.
func excerpt(text string) string { return phase.Truncate(text, 100) }

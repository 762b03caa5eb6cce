package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

// Check returns an error for the first kind of list that a server cannot serve. Within a group,
// resources, singulars and short names must be unique. The list may contain [Namespaces] once;
// their names are reserved in any case.
func Check(list []Kind) error {
	names := nameIndex{kinds: map[string]string{}, names: map[string]string{}}
	namespaces := Namespaces()
	if err := names.add(namespaces); err != nil {
		return err
	}
	declared := false
	for _, k := range list {
		if !declared && k.Name() == namespaces.Name() && k.Kind == namespaces.Kind && k.Version == namespaces.Version && !k.Namespaced {
			declared = true
			continue
		}
		if err := k.check(); err != nil {
			return err
		}
		if err := names.add(k); err != nil {
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
		return k.invalid("set both Object and List, or neither")
	}
	if k.BuiltIn() {
		if err := k.checkGo(); err != nil {
			return err
		}
	}
	if len(k.Schema) > 0 {
		if k.BuiltIn() {
			return k.invalid("a kind with Object and List must have no Schema: its Go types define the schema")
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
	for _, name := range slices.Concat([]string{k.SingularName()}, k.ShortNames, k.Categories) {
		if wrong := syntax.Label(name); len(wrong) > 0 {
			return k.invalid("singular, short name or category %.80q: %s", name, strings.Join(wrong, "; "))
		}
	}
	return nil
}

// SingularName returns Singular or, if that is empty, the kind in lower case.
func (k Kind) SingularName() string {
	if k.Singular != "" {
		return k.Singular
	}
	return strings.ToLower(k.Kind)
}

// protoMessage is implemented by Go types with a protobuf encoding.
type protoMessage interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
	Reset()
}

func (k Kind) checkGo() error {
	if _, ok := k.Object.(protoMessage); !ok {
		return k.invalid("Object: %T has no protobuf encoding", k.Object)
	}
	if _, ok := k.Object.(metav1.ObjectMetaAccessor); !ok {
		return k.invalid("Object: %T has no metadata", k.Object)
	}
	if _, ok := k.List.(metav1.ListMetaAccessor); !ok {
		return k.invalid("List: %T is not a list", k.List)
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
			return k.invalid("column %.80q: Priority is %d, must not be negative", c.Name, c.Priority)
		}
		seen[c.Name] = true
		switch c.Type {
		case "", "string", "integer", "number", "boolean", "date":
		default:
			return k.invalid("column %.80q: Type is %.80q, must be string, integer, number, boolean or date", c.Name, c.Type)
		}
	}
	return nil
}

func (k Kind) invalid(format string, args ...any) error {
	return fmt.Errorf("kind %.80q: "+format, append([]any{k.Name().String()}, args...)...)
}

// nameIndex maps kinds and names to the resources that use them.
type nameIndex struct{ kinds, names map[string]string }

// add records the names of k. It returns an error if another kind uses one of them.
func (x nameIndex) add(k Kind) error {
	resource := k.Name().String()
	kind := k.Group + "/" + k.Version + "/" + k.Kind
	if other, ok := x.kinds[kind]; ok {
		return k.invalid("%s already declares the kind %.80q of %s", other, k.Kind, k.APIVersion())
	}
	x.kinds[kind] = resource
	own := map[string]bool{} // singular and resource may be equal
	for _, name := range append([]string{k.Resource, k.SingularName()}, k.ShortNames...) {
		full := name + "." + k.Group
		if own[full] {
			continue
		}
		own[full] = true
		if other, ok := x.names[full]; ok {
			return k.invalid("%s already uses the name %.80q", other, name)
		}
		x.names[full] = resource
	}
	return nil
}

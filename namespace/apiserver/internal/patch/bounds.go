package patch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// Bounds of what has managed fields. For the libraries beneath, the fields of an
// object and the items of lists that are merged are sets, which they keep sorted by
// moving what is behind an item that is added: the effort grows with the square.
const (
	maxOwned   = 10_000 // fields of all objects within an object, and items of lists that are merged
	maxMerged  = 2_000  // items of one such list
	maxEntries = 250    // managed fields: each is compared with all that changes
)

// lastApplied has a whole object of kubectl, which the libraries beneath read too.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// errWide says why an object cannot have managed fields.
type errWide struct{ field, what string }

func (e *errWide) Error() string {
	return fmt.Sprintf("%s has more %s: change it by another patch", e.field, e.what)
}

// ownable refuses an object that has more than can be owned field by field.
func (p *Patcher) ownable(k kinds.Kind, object map[string]any) error {
	c := counter{schemas: p.schemas}
	root := p.schemas[p.documents.Definition(k)]
	if err := c.count(object, root, ""); err != nil {
		return err
	}
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	text, _ := annotations[lastApplied].(string)
	if applied, err := numbered([]byte(text)); err == nil {
		c.seen = 0
		return c.count(applied, root, "metadata.annotations["+lastApplied+"]")
	}
	return nil
}

// counter goes through an object as far as its parts can have different owners.
type counter struct {
	schemas map[string]*spec.Schema
	seen    int
}

func (c *counter) count(value any, s *spec.Schema, at string) error {
	s = c.resolve(s)
	switch value := value.(type) {
	case map[string]any:
		if err := c.add(len(value), at); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if err := c.count(value[name], fieldSchema(s, name), within(at, "."+name)); err != nil {
				return err
			}
		}
	case []any:
		if !merged(s) {
			return nil // it has one owner
		}
		if len(value) > maxMerged {
			return &errWide{clip(at), fmt.Sprintf("than %d items", maxMerged)}
		}
		if err := c.add(len(value), at); err != nil {
			return err
		}
		for i, item := range value {
			if err := c.count(item, itemSchema(s), within(at, fmt.Sprintf("[%d]", i))); err != nil {
				return err
			}
		}
	}
	return nil
}

// within returns the path of a part, of which nobody reads much.
func within(at, part string) string {
	if len(at) > 500 {
		return at
	}
	return strings.TrimPrefix(at+part, ".")
}

func (c *counter) add(n int, at string) error {
	if c.seen += n; c.seen <= maxOwned {
		return nil
	}
	if at == "" {
		at = "the object"
	}
	return &errWide{clip(at), fmt.Sprintf("fields than there may be with managed fields: %d in the whole object", maxOwned)}
}

// resolve follows references.
func (c *counter) resolve(s *spec.Schema) *spec.Schema {
	for range maxDepth {
		if s == nil {
			return nil
		}
		ref := s.Ref.String()
		if ref == "" && len(s.AllOf) == 1 {
			ref = s.AllOf[0].Ref.String()
		}
		if ref == "" {
			return s
		}
		s = c.schemas[ref[strings.LastIndex(ref, "/")+1:]]
	}
	return nil
}

// merged reports whether items of a list can have different owners.
func merged(s *spec.Schema) bool {
	if s == nil {
		return false
	}
	if kind, ok := s.Extensions.GetString("x-kubernetes-list-type"); ok {
		return kind != "atomic"
	}
	strategy, _ := s.Extensions.GetString("x-kubernetes-patch-strategy")
	return strings.Contains(strategy, "merge")
}

func fieldSchema(s *spec.Schema, name string) *spec.Schema {
	if s == nil {
		return nil
	}
	if field, ok := s.Properties[name]; ok {
		return &field
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema
	}
	return nil
}

func itemSchema(s *spec.Schema) *spec.Schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

// few reports whether managed fields are not more than the
// libraries beneath can read quickly.
func few(list []namespace.ManagedFieldsEntry) bool {
	if len(list) > maxEntries {
		return false
	}
	for _, e := range list {
		tree, err := parse(e.FieldsV1)
		if err != nil || (&counter{}).count(tree, nil, "") != nil {
			return false
		}
	}
	return true
}

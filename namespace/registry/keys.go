package registry

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// layout forms the keys of the store (design document, "Storage"):
//
//	/{prefix}/namespaces/{name}                  the namespace
//	/{prefix}/{type}/{namespace}/{name}          content
//	/{prefix}/{type}/{name}                      content of a cluster-scoped type
//	/{prefix}/.gate/{name}                       exists exactly while Active; holds the uid
//	/{prefix}/.terminating/{name}                exists exactly while Terminating; holds the uid
//	/{prefix}/.hold/{name}                       exists exactly while Active and on hold; holds when that ends, and the uid
//	/{prefix}/.types/{type}                      exists from the first create of a namespaced type until it is retired
//
// Beside them are records of what was declared (package audit, which forms their keys).
//
// Whoever forms a key has checked its segments (checkSegment) before.
type layout struct{ root string }

// maxSegment bounds a segment of a key, in bytes.
const maxSegment = 253

func newLayout(prefix string) (layout, error) {
	if len(prefix) > maxSegment {
		return layout{}, invalidOption("the prefix has %d bytes, at most %d are allowed", len(prefix), maxSegment)
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		if why := segmentFault(segment); why != "" {
			return layout{}, invalidOption("the prefix %q: a segment %s", prefix, why)
		}
	}
	return layout{"/" + prefix + "/"}, nil
}

func (l layout) namespaces() string             { return l.root + namespace.Resource + "/" }
func (l layout) namespace(name string) string   { return l.root + namespace.Resource + "/" + name }
func (l layout) gate(name string) string        { return l.root + ".gate/" + name }
func (l layout) index() string                  { return l.root + ".terminating/" }
func (l layout) terminating(name string) string { return l.root + ".terminating/" + name }
func (l layout) holds() string                  { return l.root + ".hold/" }
func (l layout) types() string                  { return l.root + ".types/" }
func (l layout) hold(name string) string        { return l.root + ".hold/" + name }

func (l layout) typeRecord(r namespace.ResourceType) string { return l.types() + r.String() }

// content returns the prefix of all objects of a type; with a namespace, of those
// in it.
func (l layout) content(resource namespace.ResourceType, ns string) string {
	if ns == "" {
		return l.root + resource.String() + "/"
	}
	return l.root + resource.String() + "/" + ns + "/"
}

// checkSegment refuses a name that cannot be a segment of a key: no such object
// can exist, and no key may be formed of it.
func checkSegment(resource, name string) error {
	if why := segmentFault(name); why != "" {
		return badRequest(resource, clip(name), "invalid resource name %q: %s", clip(name), why)
	}
	return nil
}

func segmentFault(s string) string {
	switch {
	case s == "":
		return "must not be empty"
	case len(s) > maxSegment:
		return fmt.Sprintf("must be no more than %d bytes, has %d", maxSegment, len(s))
	case s[0] == '.':
		return "must not begin with '.'"
	case !utf8.ValidString(s):
		return "must be valid UTF-8"
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '/' || c == '%':
			return fmt.Sprintf("may not contain '%c'", c)
		case c < ' ' || c == 0x7f:
			return "may not contain control characters"
		}
	}
	return ""
}

// clip cuts a name for a message.
func clip(s string) string {
	if len(s) > maxSegment {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}

// ResourceType declares one type of content.
type ResourceType struct {
	Group      string // empty: the core group
	Version    string // such as "v1"
	Resource   string // plural and lower case, such as "widgets"
	Kind       string // such as "Widget"
	Namespaced bool   // false: objects belong to no namespace, and no gate guards them
	// Status says that the field status is a sub-resource: Create drops it, Update
	// keeps what is stored, and only [Content.UpdateStatus] changes it.
	Status bool
	// Ungenerated objects have no metadata.generation, like ConfigMaps in Kubernetes. For
	// other types it counts the changes outside of metadata and status.
	Ungenerated bool
	// Fields are what field selectors may ask for, beside metadata.name and
	// metadata.namespace: paths through the document without lists, such as
	// "spec.nodeName". The value is the JSON string, number or boolean at the path, as
	// text; "" for anything else, and where there is nothing.
	Fields []string
}

func (t ResourceType) copy() ResourceType {
	t.Fields = slices.Clone(t.Fields)
	return t
}

func (t ResourceType) equal(o ResourceType) bool {
	return t.Name() == o.Name() && t.Version == o.Version && t.Kind == o.Kind && t.Namespaced == o.Namespaced &&
		t.Status == o.Status && t.Ungenerated == o.Ungenerated && slices.Equal(t.Fields, o.Fields)
}

// Name returns the group and the resource, as package deleter names them.
func (t ResourceType) Name() namespace.ResourceType {
	return namespace.ResourceType{Group: t.Group, Name: t.Resource}
}

// APIVersion returns "group/version", or the version alone for the core group.
func (t ResourceType) APIVersion() string {
	if t.Group == "" {
		return t.Version
	}
	return t.Group + "/" + t.Version
}

// qualifiedKind is how messages about invalid objects name the kind.
func (t ResourceType) qualifiedKind() string {
	if t.Group == "" {
		return t.Kind
	}
	return t.Kind + "." + t.Group
}

// check refuses a type that cannot be declared. Kinds are not part of keys, but
// they are of documents.
func (t ResourceType) check() error {
	if err := checkName(t.Name()); err != nil {
		return err
	}
	if wrong := syntax.Label(t.Version); len(wrong) > 0 {
		return invalidOption("resource type %q: the version %s", t.Name(), strings.Join(wrong, "; "))
	}
	if wrong := syntax.Label(strings.ToLower(t.Kind)); len(wrong) > 0 {
		return invalidOption("resource type %q: the kind, in lower case, %s", t.Name(), strings.Join(wrong, "; "))
	}
	return t.checkFields()
}

// checkName refuses a name that no type of content can have.
func checkName(r namespace.ResourceType) error {
	if wrong := syntax.Label(r.Name); len(wrong) > 0 {
		return invalidOption("resource type %q: the resource %s", clip(r.String()), strings.Join(wrong, "; "))
	}
	if r.Group != "" {
		if wrong := syntax.Subdomain(r.Group); len(wrong) > 0 {
			return invalidOption("resource type %q: the group %s", clip(r.String()), strings.Join(wrong, "; "))
		}
	}
	switch {
	case len(r.String()) > maxSegment:
		return invalidOption("resource type %q: the name is longer than %d bytes", r, maxSegment)
	case r.Name == "finalize":
		return invalidOption("resource type %q: the name finalize is reserved for the operation on namespaces", r)
	case r.Group == "" && r.Name == namespace.Resource:
		return invalidOption("resource type %q: the namespaces themselves are not content", r)
	}
	return nil
}

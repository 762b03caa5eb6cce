package manifests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// document is one object that a file describes.
type document struct {
	file   string
	kind   kinds.Kind
	object registry.Object
	hash   string // of the object
}

// key identifies the object within the namespace.
func (d document) key() string { return keyOf(d.kind.Type, d.object.Name) }

func keyOf(t registry.Type, name string) string { return t.Name().String() + "/" + name }

const maxLists = 4 // depth of nested lists

// decode returns all objects of a file, or an error that matches [ErrDocument].
func (s *Syncer) decode(f File) ([]document, error) {
	d := decoder{codec: s.codec, types: s.types, ns: s.ns, file: f.Name, maxObjects: s.options.MaxObjects}
	if err := d.read(f.Data); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDocument, phase.Truncate(err.Error(), 1<<10))
	}
	if !d.found {
		return nil, fmt.Errorf("%w: there is no document", ErrDocument)
	}
	return d.documents, nil
}

// YAML aliases can make the JSON of a file much larger than the file. The JSON may have
// maxExpansion times the bytes of the file, or minExpansion bytes if that is more.
const (
	maxExpansion = 8
	minExpansion = 1 << 20
)

type decoder struct {
	codec      *codec.Codec
	types      typeIndex
	ns         string
	file       string
	maxObjects int
	budget     int  // remaining bytes of JSON
	found      bool // the file has a document, even if it is an empty list
	documents  []document
}

// read reads a file as JSON or YAML.
func (d *decoder) read(data []byte) error {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !looksLikeJSON(data) {
		return d.yamls(data)
	}
	err := d.json(data)
	if err == nil {
		return nil
	}
	d.found, d.documents = false, nil
	if d.yamls(data) == nil { // YAML may begin with a brace
		return nil
	}
	return err
}

func (d *decoder) yamls(data []byte) error {
	d.budget = max(minExpansion, maxExpansion*len(data))
	reader := yamlreader.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.yaml(part)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func looksLikeJSON(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
}

func (d *decoder) json(data []byte) error {
	stream := json.NewDecoder(bytes.NewReader(data))
	for n := 1; ; n++ {
		var raw json.RawMessage
		err := stream.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.add(raw, 0, namespace.TypeMeta{})
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func (d *decoder) yaml(part []byte) error {
	if blank(part) {
		return nil
	}
	raw, err := codec.Document(part)
	if err != nil {
		return err
	}
	if d.budget -= len(raw); d.budget < 0 {
		return errors.New("the aliases of the file expand to too many bytes")
	}
	return d.add(raw, 0, namespace.TypeMeta{})
}

// blank reports whether a document has only whitespace and comments.
func blank(part []byte) bool {
	for line := range bytes.Lines(part) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && string(line) != "---" && string(line) != "..." {
			return false
		}
	}
	return true
}

// head has the fields that distinguish lists from objects.
type head struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      json.RawMessage `json:"items"`
}

// add decodes an object or a list. An item of a typed list may omit its type.
func (d *decoder) add(raw []byte, depth int, item namespace.TypeMeta) error {
	if len(raw) > registry.MaxObject && depth > 0 {
		return fmt.Errorf("an object has %d bytes, at most %d are allowed", len(raw), registry.MaxObject)
	}
	var h head
	twice, err := kjson.UnmarshalStrict(raw, &h, kjson.DisallowDuplicateFields)
	if err = errors.Join(append(twice, err)...); err != nil {
		return err
	}
	if h.APIVersion == "" && h.Kind == "" {
		h.APIVersion, h.Kind = item.APIVersion, item.Kind
	}
	if h.APIVersion == "" || h.Kind == "" {
		return errors.New("apiVersion and kind are required")
	}
	if k, ok := d.types.of(h.APIVersion, h.Kind); ok {
		return d.object(k, raw)
	}
	if item, ok := d.itemOf(h); ok {
		return d.list(item, h.Items, depth)
	}
	return fmt.Errorf("no resource type has apiVersion %.80q and kind %.80q", h.APIVersion, h.Kind)
}

// object decodes an object as the API server does.
func (d *decoder) object(k kinds.Kind, raw []byte) error {
	o, _, err := d.codec.Decode(k, "application/json", raw, codec.Strict)
	switch {
	case err != nil:
		return err
	case !k.Namespaced:
		return fmt.Errorf("%s are cluster-scoped: only namespaced objects can be registered", k.Name())
	case o.Name == "":
		return fmt.Errorf("%s: metadata.name is required: a source does not generate names", o.Kind)
	case o.Namespace != "" && o.Namespace != d.ns:
		return fmt.Errorf("%s/%.80s: metadata.namespace is %.80q, but the source belongs to %q: remove the field", k.Name(), o.Name, o.Namespace, d.ns)
	case len(d.documents) == d.maxObjects:
		return fmt.Errorf("there are more than %d objects", d.maxObjects)
	}
	o = wanted(k, d.ns, o)
	if k.Default != nil {
		k.Default(&o)
	}
	if err := validate(k, nil, &o); err != nil {
		return err
	}
	canonical, err := json.Marshal(o)
	if err != nil {
		return err
	}
	d.found = true
	d.documents = append(d.documents, document{file: d.file, kind: k, object: o, hash: hashOf(canonical)})
	return nil
}

// itemOf reports whether h is a list, and returns the type of its items, or zero for any type.
func (d *decoder) itemOf(h head) (item namespace.TypeMeta, ok bool) {
	if h.APIVersion == "v1" && h.Kind == "List" {
		return item, true
	}
	kind, ok := strings.CutSuffix(h.Kind, "List")
	if !ok {
		return item, false
	}
	k, ok := d.types.of(h.APIVersion, kind)
	return namespace.TypeMeta{APIVersion: h.APIVersion, Kind: kind}, ok && k.Namespaced
}

// list decodes the items of a list. A list without items, such as a truncated one, is an error.
func (d *decoder) list(item namespace.TypeMeta, items []byte, depth int) error {
	if depth == maxLists {
		return errors.New("the document nests too many lists")
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(items, &raws); err != nil || raws == nil {
		return errors.New("items must be a list; for no items, write []")
	}
	d.found = true
	for i, raw := range raws {
		if err := d.add(raw, depth+1, item); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

// wanted returns the object without the fields that the server sets. It drops an empty status too,
// which Go types add.
func wanted(k kinds.Kind, ns string, o registry.Object) registry.Object {
	annotations := maps.Clone(o.Annotations)
	delete(annotations, Annotation)
	o.Meta = namespace.Meta{
		Name: o.Name, Namespace: ns, Labels: o.Labels, Annotations: annotations,
		OwnerReferences: slices.Clone(o.OwnerReferences), Finalizers: o.Finalizers,
	}
	if k.Status || string(o.Fields["status"]) == "{}" {
		delete(o.Fields, "status")
	}
	return o
}

package sources

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
	"sigs.k8s.io/yaml"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// typeIndex finds resource types by "apiVersion, kind".
type typeIndex map[string]registry.ResourceType

func indexTypes(types []registry.ResourceType) typeIndex {
	index := typeIndex{}
	for _, t := range types {
		index[t.APIVersion()+", "+t.Kind] = t
	}
	return index
}

// document is one object that a file describes.
type document struct {
	file   string
	typ    registry.ResourceType
	object registry.Object
	hash   string // of everything that the file says of it
}

// key names the object within the namespace.
func (d document) key() string { return keyOf(d.typ, d.object.Name) }

func keyOf(t registry.ResourceType, name string) string { return t.Name().String() + "/" + name }

const maxLists = 4 // lists within lists

// decode returns the objects of a file, all of them or an error that matches
// [ErrDocument].
func (s *Syncer) decode(f File) ([]document, error) {
	d := decoder{types: s.types, space: s.space, file: f.Name, most: s.options.MaxObjects}
	if err := d.read(f.Data); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDocument, clip(err.Error()))
	}
	if !d.any {
		return nil, fmt.Errorf("%w: there is no document", ErrDocument)
	}
	return d.documents, nil
}

// clip cuts a text that repeats much of a document.
func clip(text string) string {
	const most = 1 << 10
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

type decoder struct {
	types     typeIndex
	space     string
	file      string
	most      int
	any       bool // there was a document, if only an empty list
	documents []document
}

// read reads documents one by one.
func (d *decoder) read(data []byte) error {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !looksLikeJSON(data) {
		return d.yamls(data)
	}
	err := d.json(data)
	if err == nil {
		return nil
	}
	d.any, d.documents = false, nil
	if d.yamls(data) == nil { // YAML may begin with a brace too
		return nil
	}
	return err
}

func (d *decoder) yamls(data []byte) error {
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
			err = d.add(raw, 0)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func (d *decoder) yaml(part []byte) error {
	raw, err := yaml.YAMLToJSONStrict(part)
	if err != nil {
		return err
	}
	if string(bytes.TrimSpace(raw)) != "null" {
		return d.add(raw, 0)
	}
	if !blank(part) { // the reader takes what is nested too deep for it for nothing, too
		return errors.New("it is not an object")
	}
	return nil
}

// blank reports whether a document is nothing but white space and comments.
func blank(part []byte) bool {
	for line := range bytes.Lines(part) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && string(line) != "---" && string(line) != "..." {
			return false
		}
	}
	return true
}

// add takes one object, or the objects of a list.
func (d *decoder) add(raw []byte, depth int) error {
	if len(raw) > registry.MaxObject && depth > 0 {
		return fmt.Errorf("an object has %d bytes, at most %d are allowed", len(raw), registry.MaxObject)
	}
	var o registry.Object
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	if items, ok := o.Fields["items"]; ok && strings.HasSuffix(o.Kind, "List") {
		return d.list(o.TypeMeta, items, depth)
	}
	t, ok := d.types[o.APIVersion+", "+o.Kind]
	switch {
	case o.APIVersion == "" || o.Kind == "":
		return errors.New("apiVersion and kind are required")
	case !ok:
		return fmt.Errorf("there is no resource type of apiVersion %.80q and kind %.80q", o.APIVersion, o.Kind)
	case !t.Namespaced:
		return fmt.Errorf("%s are cluster-scoped: only what belongs to a namespace can be registered", t.Name())
	case o.Name == "":
		return fmt.Errorf("%s: metadata.name is required: names are not generated here", o.Kind)
	case o.Namespace != "" && o.Namespace != d.space:
		return fmt.Errorf("%s/%.80s: metadata.namespace is %.80q, but the source belongs to %q: leave it out", t.Name(), o.Name, o.Namespace, d.space)
	case len(d.documents) == d.most:
		return fmt.Errorf("there are more than %d objects", d.most)
	}
	d.any = true
	o = wanted(t, d.space, o)
	canonical, err := json.Marshal(o)
	if err != nil {
		return err
	}
	d.documents = append(d.documents, document{file: d.file, typ: t, object: o, hash: hashOf(canonical)})
	return nil
}

func (d *decoder) list(meta namespace.TypeMeta, items []byte, depth int) error {
	if depth == maxLists {
		return errors.New("there are lists within lists within lists")
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(items, &raws); err != nil {
		return fmt.Errorf("items: %w", err)
	}
	d.any = true
	for i, raw := range raws {
		raw, err := typed(raw, meta)
		if err == nil {
			err = d.add(raw, depth+1)
		}
		if err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

// typed gives an item of a typed list, such as a ConfigMapList, the type that it may
// leave out.
func typed(raw []byte, list namespace.TypeMeta) ([]byte, error) {
	kind := strings.TrimSuffix(list.Kind, "List")
	if kind == "" {
		return raw, nil
	}
	var o registry.Object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if o.Kind != "" || o.APIVersion != "" {
		return raw, nil
	}
	o.TypeMeta = namespace.TypeMeta{Kind: kind, APIVersion: list.APIVersion}
	return json.Marshal(o)
}

// wanted returns what a document says, without what is the server's.
func wanted(t registry.ResourceType, space string, o registry.Object) registry.Object {
	annotations := maps.Clone(o.Annotations)
	delete(annotations, Annotation)
	o.Meta = namespace.Meta{
		Name: o.Name, Namespace: space, Labels: o.Labels, Annotations: annotations,
		OwnerReferences: slices.Clone(o.OwnerReferences), Finalizers: o.Finalizers,
	}
	if t.Status {
		delete(o.Fields, "status")
	}
	return o
}

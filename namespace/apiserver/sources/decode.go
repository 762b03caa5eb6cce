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
	hash   string // of everything that the file says of it
}

// key names the object within the namespace.
func (d document) key() string { return keyOf(d.kind.ResourceType, d.object.Name) }

func keyOf(t registry.ResourceType, name string) string { return t.Name().String() + "/" + name }

const maxLists = 4 // lists within lists

// decode returns the objects of a file, all of them or an error that matches
// [ErrDocument].
func (s *Syncer) decode(f File) ([]document, error) {
	d := decoder{codec: s.codec, types: s.types, space: s.space, file: f.Name, most: s.options.MaxObjects}
	if err := d.read(f.Data); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrDocument, phase.Truncate(err.Error(), 1<<10))
	}
	if !d.any {
		return nil, fmt.Errorf("%w: there is no document", ErrDocument)
	}
	return d.documents, nil
}

// The aliases of YAML repeat what they name. The JSON form of a file may be so many
// times its size, or so many bytes if that is more.
const (
	maxExpansion = 8
	minExpansion = 1 << 20
)

type decoder struct {
	codec     *codec.Codec
	types     typeIndex
	space     string
	file      string
	most      int
	room      int  // bytes of JSON that the documents may still have
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
	d.room = max(minExpansion, maxExpansion*len(data))
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
	if d.room -= len(raw); d.room < 0 {
		return errors.New("the aliases of the file repeat too much")
	}
	return d.add(raw, 0, namespace.TypeMeta{})
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

// head is what tells objects from lists.
type head struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      json.RawMessage `json:"items"`
}

// add takes one object, or the objects of a list. An item of a list of one kind may
// leave out its type.
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
	return fmt.Errorf("there is no resource type of apiVersion %.80q and kind %.80q", h.APIVersion, h.Kind)
}

// object takes one object, as a server would that is sent it.
func (d *decoder) object(k kinds.Kind, raw []byte) error {
	o, _, err := d.codec.Decode(k, "application/json", raw, codec.Strict)
	switch {
	case err != nil:
		return err
	case !k.Namespaced:
		return fmt.Errorf("%s are cluster-scoped: only what belongs to a namespace can be registered", k.Name())
	case o.Name == "":
		return fmt.Errorf("%s: metadata.name is required: names are not generated here", o.Kind)
	case o.Namespace != "" && o.Namespace != d.space:
		return fmt.Errorf("%s/%.80s: metadata.namespace is %.80q, but the source belongs to %q: leave it out", k.Name(), o.Name, o.Namespace, d.space)
	case len(d.documents) == d.most:
		return fmt.Errorf("there are more than %d objects", d.most)
	}
	o = wanted(k, d.space, o)
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
	d.any = true
	d.documents = append(d.documents, document{file: d.file, kind: k, object: o, hash: hashOf(canonical)})
	return nil
}

// itemOf reports whether something is a list, and of which type its items are: of
// any (zero), or of one that is declared.
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

// list takes the items of a list. One that was cut off before them is none.
func (d *decoder) list(item namespace.TypeMeta, items []byte, depth int) error {
	if depth == maxLists {
		return errors.New("there are lists within lists within lists")
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(items, &raws); err != nil || raws == nil {
		return errors.New("items must be a list; write [] for none")
	}
	d.any = true
	for i, raw := range raws {
		if err := d.add(raw, depth+1, item); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

// wanted returns what a document says, without what is the server's. An empty status
// is what a Go type makes of none.
func wanted(k kinds.Kind, space string, o registry.Object) registry.Object {
	annotations := maps.Clone(o.Annotations)
	delete(annotations, Annotation)
	o.Meta = namespace.Meta{
		Name: o.Name, Namespace: space, Labels: o.Labels, Annotations: annotations,
		OwnerReferences: slices.Clone(o.OwnerReferences), Finalizers: o.Finalizers,
	}
	if k.Status || string(o.Fields["status"]) == "{}" {
		delete(o.Fields, "status")
	}
	return o
}

// Package openapi describes the kinds of a server in OpenAPI v2 and v3, so that clients can
// validate, explain and merge objects.
//
// The handlers of kube-openapi are not used: they would add go-restful, gziphandler and uuid
// to the dependencies of every server.
package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/document"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// Definitions that paths refer to.
const (
	metaPrefix        = "io.k8s.apimachinery.pkg.apis.meta.v1."
	deleteOptionsName = metaPrefix + "DeleteOptions"
	statusName        = metaPrefix + "Status"
	patchName         = metaPrefix + "Patch"
	watchEventName    = metaPrefix + "WatchEvent"
)

// Documents are the descriptions of the kinds. Use [New] to create them. They are safe for
// concurrent use.
type Documents struct {
	names   map[schema.GroupVersionKind]string
	schemas map[string]*spec.Schema // in OpenAPI v3
	v2      []*document.Form
	v3      map[string][]*document.Form // by version, such as "apis/example.com/v1"; the first is JSON
	index   []*document.Form
}

// New describes the kinds of list and namespaces. The error is [namespace.ErrInvalid] for a
// Go type without a JSON form, a malformed schema, a schema with references, and a duplicate
// kind.
func New(list []kinds.Kind) (*Documents, error) {
	isNamespaces := func(k kinds.Kind) bool { return served{Kind: k}.namespaces() }
	if !slices.ContainsFunc(list, isNamespaces) {
		list = append(slices.Clone(list), kinds.Namespaces())
	}
	b := newBuilder()
	for _, common := range []any{metav1.ObjectMeta{}, metav1.ListMeta{}, metav1.DeleteOptions{}, metav1.Status{}, metav1.Patch{}, metav1.WatchEvent{}} {
		if _, err := b.define(reflect.TypeOf(common)); err != nil {
			return nil, err
		}
	}
	d := &Documents{names: map[schema.GroupVersionKind]string{}}
	all := make([]served, 0, len(list))
	for _, k := range list {
		s, err := d.describe(b, k)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	b.name(deleteOptionsName, schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"})
	b.name(statusName, schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	return d, d.encode(b, all)
}

// describe adds the definitions of a kind.
func (d *Documents) describe(b *builder, k kinds.Kind) (served, error) {
	s := served{Kind: k, object: customName(k)}
	gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
	if _, ok := d.names[gvk]; ok {
		return s, duplicate(k)
	}
	var err error
	if k.BuiltIn() {
		if s.object, err = b.define(reflect.TypeOf(k.Object)); err == nil {
			s.list, err = b.define(reflect.TypeOf(k.List))
		}
		if err != nil {
			return s, &namespace.Error{
				Kind: namespace.ErrInvalid, Resource: k.Name().String(), Err: err,
				Message: fmt.Sprintf("the Go types of %s cannot be described: %v", k.Name(), err),
			}
		}
	} else {
		if err = b.custom(k, metaPrefix+"ObjectMeta", metaPrefix+"ListMeta"); err != nil {
			return s, err
		}
		s.list = s.object + "List"
	}
	d.names[gvk] = s.object
	b.name(s.object, gvk)
	b.name(s.list, schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind + "List"})
	b.name(deleteOptionsName, schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: "DeleteOptions"})
	return s, nil
}

// Schemas returns the definitions by name, for managedfields.NewTypeConverter. The caller
// must not modify them.
func (d *Documents) Schemas() map[string]*spec.Schema { return d.schemas }

// Definition returns the name of the definition of a kind, or "" if there is none.
func (d *Documents) Definition(k kinds.Kind) string {
	return d.names[schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}]
}

// encode prepares the documents. They are encoded on the first request, except for the
// host's own schemas, whose errors New returns.
func (d *Documents) encode(b *builder, all []served) error {
	paths := map[string]spec.PathItem{}
	for _, k := range all {
		k.paths(paths)
		k.streams(paths)
	}
	d.schemas = b.v3()
	d.v2 = v2Forms(func() *spec.Swagger { return b.v2(paths) })
	d.v3 = map[string][]*document.Form{}
	own := newBuilder()
	for _, k := range all {
		key := strings.TrimPrefix(k.base(), "/")
		if d.v3[key] == nil {
			d.v3[key] = v3Forms(func() *spec3.OpenAPI { return d.version(paths, all, k.base()) })
		}
		if len(k.Schema) > 0 && !k.BuiltIn() {
			own.definitions[k.object] = b.definitions[k.object]
		}
	}
	d.index = []*document.Form{indexForm(d.v3)}
	if len(own.definitions) == 0 {
		return nil
	}
	return own.prove()
}

// prove encodes a description of the definitions alone in every form.
func (b *builder) prove() error {
	forms := v2Forms(func() *spec.Swagger { return b.v2(nil) })
	forms = append(forms, v3Forms(func() *spec3.OpenAPI {
		return &spec3.OpenAPI{
			Version: "3.0.0", Info: info(), Paths: &spec3.Paths{}, Components: &spec3.Components{Schemas: b.v3()},
		}
	})...)
	for _, form := range forms {
		if _, err := form.Bytes(); err != nil {
			return &namespace.Error{Kind: namespace.ErrInvalid, Err: err, Message: "a schema of the kinds cannot be published: " + err.Error()}
		}
	}
	return nil
}

// v2 returns the description of all versions.
func (b *builder) v2(paths map[string]spec.PathItem) *spec.Swagger {
	definitions := make(spec.Definitions, len(b.definitions))
	for name, s := range b.definitions {
		definitions[name] = *simple(&s)
	}
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0", Info: info(), Paths: &spec.Paths{Paths: paths}, Definitions: definitions,
	}}
}

func info() *spec.Info {
	return &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: "v1"}}
}

// v3 returns the definitions in OpenAPI v3.
func (b *builder) v3() map[string]*spec.Schema {
	out := make(map[string]*spec.Schema, len(b.definitions))
	for name, s := range b.definitions {
		converted := openapiconv.ConvertSchema(&s)
		if types := b.oneOf[name]; len(types) > 0 {
			converted.Type = nil
			for _, t := range types {
				converted.OneOf = append(converted.OneOf, *new(spec.Schema).Typed(t, ""))
			}
		}
		out[name] = converted
	}
	return out
}

// version returns the description of one version: its paths and the definitions that they
// refer to.
func (d *Documents) version(paths map[string]spec.PathItem, all []served, base string) *spec3.OpenAPI {
	out := &spec3.OpenAPI{
		Version: "3.0.0", Info: info(),
		Paths:      &spec3.Paths{Paths: map[string]*spec3.Path{}},
		Components: &spec3.Components{Schemas: map[string]*spec.Schema{}},
	}
	for p, item := range paths {
		if strings.HasPrefix(p, base+"/") {
			out.Paths.Paths[p] = openapiconv.ConvertPathItem(item)
		}
	}
	for _, name := range []string{deleteOptionsName, statusName, patchName, watchEventName} {
		d.reach(name, out.Components.Schemas)
	}
	for _, k := range all {
		if k.base() == base {
			d.reach(k.object, out.Components.Schemas)
			d.reach(k.list, out.Components.Schemas)
		}
	}
	return out
}

// reach adds a definition and, recursively, the definitions that it refers to.
func (d *Documents) reach(name string, into map[string]*spec.Schema) {
	s, ok := d.schemas[name]
	if _, there := into[name]; there || !ok {
		return
	}
	into[name] = s
	for _, next := range references(s) {
		d.reach(next, into)
	}
}

// Media types of the protobuf forms. Old clients use the spelling with "@", which is not a
// valid media type.
const (
	v2Protobuf    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	v2ProtobufOld = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	v3Protobuf    = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	v3ProtobufOld = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
)

func v2Forms(build func() *spec.Swagger) []*document.Form {
	return forms(func() any { return build() }, v2Protobuf, v2ProtobufOld, func(data []byte) (proto.Message, error) { return openapi_v2.ParseDocument(data) })
}

func v3Forms(build func() *spec3.OpenAPI) []*document.Form {
	return forms(func() any { return build() }, v3Protobuf, v3ProtobufOld, func(data []byte) (proto.Message, error) { return openapi_v3.ParseDocument(data) })
}

// forms returns a document in JSON and in protobuf.
func forms(build func() any, mediaType, oldMediaType string, parse func([]byte) (proto.Message, error)) []*document.Form {
	plain := document.NewForm(document.JSON, func() ([]byte, error) { return json.Marshal(build()) })
	return []*document.Form{plain, document.NewForm(mediaType, func() ([]byte, error) {
		data, err := plain.Bytes()
		if err != nil {
			return nil, err
		}
		parsed, err := parse(data)
		if err != nil {
			return nil, err
		}
		return proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	}, mediaType, oldMediaType)}
}

// indexForm lists the documents of the versions. Each address contains the hash of its
// document, so that clients can cache the document.
func indexForm(versions map[string][]*document.Form) *document.Form {
	type entry struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	return document.NewForm(document.JSON, func() ([]byte, error) {
		paths := make(map[string]entry, len(versions))
		for version, forms := range versions {
			hash, err := forms[0].Hash()
			if err != nil {
				return nil, err
			}
			paths[version] = entry{address(version, hash)}
		}
		return json.Marshal(map[string]any{"paths": paths})
	})
}

func address(version, hash string) string {
	u := url.URL{Path: path.Join("/openapi/v3", version), RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}

// find returns the forms of the document at a path, or nil.
func (d *Documents) find(path string) []*document.Form {
	path = strings.TrimSuffix(path, "/")
	switch version, ok := strings.CutPrefix(path, "/openapi/v3/"); {
	case ok:
		return d.v3[version]
	case path == "/openapi/v3":
		return d.index
	case path == "/openapi/v2":
		return d.v2
	}
	return nil
}

// Serves reports whether there is a document at a path.
func (d *Documents) Serves(path string) bool { return d.find(path) != nil }

// Serve answers with the document of the path, for which Serves must be true. The answer to a
// request with the current hash may be cached for a year; another hash is redirected to the
// current one.
func (d *Documents) Serve(w http.ResponseWriter, r *http.Request) error {
	forms := d.find(r.URL.Path)
	hash := r.URL.Query().Get("hash")
	version, versioned := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/"), "/openapi/v3/")
	if versioned && hash != "" {
		now, err := forms[0].Hash()
		if err == nil && hash != now {
			http.Redirect(w, r, address(version, now), http.StatusMovedPermanently)
			return nil
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().UTC().AddDate(1, 0, 0).Format(http.TimeFormat))
	}
	err := document.Serve(w, r, forms...)
	if err != nil {
		w.Header().Del("Expires")
	}
	return err
}

// references returns the names of the definitions to which a schema refers.
func references(s *spec.Schema) []string {
	var out []string
	walker := schemamutation.Walker{
		SchemaCallback: schemamutation.SchemaCallBackNoop,
		RefCallback: func(ref *spec.Ref) *spec.Ref {
			if ref != nil && ref.String() != "" {
				out = append(out, path.Base(ref.String()))
			}
			return ref
		},
	}
	walker.WalkSchema(s)
	return out
}

package openapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/schemamutation"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/document"
)

// Media types of the protobuf forms. Clients ask for them in two spellings; that
// with "@" is no valid media type, so answers have the other.
const (
	v2Protobuf    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	v2ProtobufOld = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	v3Protobuf    = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	v3ProtobufOld = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
)

func v2Forms(build func() *spec.Swagger) []*document.Form {
	plain := document.NewForm(document.JSON, func() ([]byte, error) { return json.Marshal(build()) })
	return []*document.Form{plain, document.NewForm(v2Protobuf, func() ([]byte, error) {
		data, err := plain.Bytes()
		if err != nil {
			return nil, err
		}
		parsed, err := openapi_v2.ParseDocument(data)
		if err != nil {
			return nil, err
		}
		return proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	}, v2Protobuf, v2ProtobufOld)}
}

func v3Forms(build func() *spec3.OpenAPI) []*document.Form {
	plain := document.NewForm(document.JSON, func() ([]byte, error) { return json.Marshal(build()) })
	return []*document.Form{plain, document.NewForm(v3Protobuf, func() ([]byte, error) {
		data, err := plain.Bytes()
		if err != nil {
			return nil, err
		}
		parsed, err := openapi_v3.ParseDocument(data)
		if err != nil {
			return nil, err
		}
		return proto.MarshalOptions{Deterministic: true}.Marshal(parsed)
	}, v3Protobuf, v3ProtobufOld)}
}

// indexForm is the list of the versions' documents. Each address has the hash of
// its document, so that clients may keep what they got from it for good.
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

// Paths returns what the paths that ServeHTTP answers begin with.
func (d *Documents) Paths() []string { return []string{"/openapi/v2", "/openapi/v3"} }

// Serves reports whether ServeHTTP has a document for the path.
func (d *Documents) Serves(path string) bool { return d.find(path) != nil }

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

// ServeHTTP answers with the document of the path, or with the Status 404. A
// request that names the hash of its document gets an answer that may be kept for a
// year; if the hash is another one, it is sent to the right address.
func (d *Documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forms := d.find(r.URL.Path)
	if forms == nil {
		document.NotFound(w)
		return
	}
	hash := r.URL.Query().Get("hash")
	version, versioned := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/"), "/openapi/v3/")
	if versioned && hash != "" {
		now, err := forms[0].Hash()
		if err == nil && hash != now {
			http.Redirect(w, r, address(version, now), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().UTC().AddDate(1, 0, 0).Format(http.TimeFormat))
	}
	document.Serve(w, r, forms...)
}

// references returns the names of the definitions that a schema refers to.
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

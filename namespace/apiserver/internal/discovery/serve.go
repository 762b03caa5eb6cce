package discovery

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/document"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// Documents serves discovery. Make one with [New]. It is safe for concurrent use.
type Documents struct {
	documents map[string][]*document.Form // by path
	groups    []group
	core      []*document.Form // aggregated forms of /api
}

// New returns the documents about the kinds, which must be without duplicates, and
// the version that the server says it has. Namespaces are there even if list does
// not have them.
func New(list []kinds.Kind, v version.Info) *Documents {
	all := groups(list)
	named := slices.DeleteFunc(slices.Clone(all), func(g group) bool { return g.name == "" })
	core := slices.DeleteFunc(slices.Clone(all), func(g group) bool { return g.name != "" })
	d := &Documents{groups: all, documents: map[string][]*document.Form{}, core: aggregatedForms(core)}
	d.documents["/version"] = []*document.Form{document.NewForm(document.JSON, func() ([]byte, error) {
		return json.MarshalIndent(v, "", "  ")
	})}
	list1 := &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
	for _, g := range named {
		described := g.describe()
		list1.Groups = append(list1.Groups, described)
		described.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		d.documents["/apis/"+g.name] = forms(&described)
	}
	d.documents["/apis"] = append(forms(list1), aggregatedForms(named)...)
	for _, g := range all {
		for _, v := range g.versions {
			d.documents[v.path()] = forms(v.list())
		}
	}
	return d
}

// path is where the resources of a version are served.
func (v groupVersion) path() string {
	if v.group == "" {
		return "/api/" + v.version
	}
	return "/apis/" + v.group + "/" + v.version
}

// Paths returns the paths that ServeHTTP answers, sorted. They come with and
// without a slash at their end.
func (d *Documents) Paths() []string {
	return slices.Sorted(maps.Keys(maps.Collect(func(yield func(string, bool) bool) {
		for path := range d.documents {
			if !yield(path, true) {
				return
			}
		}
		yield("/api", true)
	})))
}

// Serves reports whether ServeHTTP has a document for the path.
func (d *Documents) Serves(path string) bool {
	path = trimmed(path)
	return path == "/api" || d.documents[path] != nil
}

// ServeHTTP answers with the document of the path, or with the Status 404.
func (d *Documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := trimmed(r.URL.Path)
	if path == "/api" {
		document.Serve(w, r, append(d.versions(r.Host), d.core...)...)
		return
	}
	if f := d.documents[path]; f != nil {
		document.Serve(w, r, f...)
		return
	}
	document.NotFound(w)
}

// trimmed returns the path without one slash at its end.
func trimmed(path string) string { return strings.TrimSuffix(path, "/") }

// versions is the legacy document of the core group. It names the address of the
// server, which is the one that the client used.
func (d *Documents) versions(host string) []*document.Form {
	out := &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: host}},
	}
	for _, g := range d.groups {
		if g.name != "" {
			break
		}
		for _, v := range g.versions {
			out.Versions = append(out.Versions, v.version)
		}
	}
	return forms(out)
}

// forms returns the encodings of a discovery document.
func forms(o runtime.Object) []*document.Form {
	return []*document.Form{
		document.NewForm(document.JSON, func() ([]byte, error) { return json.Marshal(o) }),
		document.NewForm(document.Protobuf, func() ([]byte, error) {
			var out bytes.Buffer
			err := protobuf.NewSerializer(nil, nil).Encode(o, &out)
			return out.Bytes(), err
		}),
	}
}

func aggregatedForms(groups []group) []*document.Form {
	var out []*document.Form
	for _, v := range []string{"v2", "v2beta1"} {
		contentType := "application/json;g=apidiscovery.k8s.io;v=" + v + ";as=APIGroupDiscoveryList"
		out = append(out, document.NewForm(contentType, func() ([]byte, error) { return json.Marshal(aggregated(groups, v)) }))
	}
	return out
}

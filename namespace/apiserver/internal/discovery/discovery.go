// Package discovery serves the documents from which clients learn the resources of a server:
// the group lists, the resource lists, aggregated discovery, and the version.
package discovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/document"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// Documents serves discovery. Use [New] to create one. It is safe for concurrent use.
type Documents struct {
	documents map[string][]*document.Form // by path, except /api
	groups    []group
	core      []*document.Form // aggregated forms of /api
}

// New describes the kinds of list, which must not contain duplicates, and namespaces. v is
// the version that the server reports.
func New(list []kinds.Kind, v version.Info) *Documents {
	all := groups(list)
	named := slices.DeleteFunc(slices.Clone(all), func(g group) bool { return g.name == "" })
	core := slices.DeleteFunc(slices.Clone(all), func(g group) bool { return g.name != "" })
	d := &Documents{groups: all, documents: map[string][]*document.Form{}, core: aggregatedForms(core)}
	d.documents["/version"] = []*document.Form{document.NewForm(document.JSON, func() ([]byte, error) {
		return json.MarshalIndent(v, "", "  ")
	})}
	groupList := &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
	for _, g := range named {
		described := g.describe()
		groupList.Groups = append(groupList.Groups, described)
		described.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		d.documents["/apis/"+g.name] = forms(&described)
	}
	d.documents["/apis"] = append(forms(groupList), aggregatedForms(named)...)
	for _, g := range all {
		for _, v := range g.versions {
			d.documents[v.path()] = forms(v.list())
		}
	}
	return d
}

// path returns the path of the resource list of a version.
func (v groupVersion) path() string {
	if v.group == "" {
		return "/api/" + v.version
	}
	return "/apis/" + v.group + "/" + v.version
}

// Serves reports whether there is a document at a path.
func (d *Documents) Serves(path string) bool {
	path = strings.TrimSuffix(path, "/")
	return path == "/api" || d.documents[path] != nil
}

// Serve answers with the document of the path, for which Serves must be true.
func (d *Documents) Serve(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if path == "/api" {
		return document.Serve(w, r, append(d.versions(r.Host), d.core...)...)
	}
	return document.Serve(w, r, d.documents[path]...)
}

// versions returns the legacy document of the core group. It contains the address that the
// client used for the server.
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

// group is an API group. The preferred version is the first.
type group struct {
	name     string
	versions []groupVersion
}

// groupVersion has the resources of a version, sorted by name.
type groupVersion struct {
	group, version string
	resources      []resource
}

func (v groupVersion) String() string {
	if v.group == "" {
		return v.version
	}
	return v.group + "/" + v.version
}

// resource is a kind in terms of discovery.
type resource struct {
	kinds.Kind
	singular     string
	verbs        []string
	subresources []subresource
}

type subresource struct {
	name  string
	verbs []string
}

// Verbs, in the order of Kubernetes.
var (
	contentVerbs   = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	namespaceVerbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	statusVerbs    = []string{"get", "patch", "update"}
	finalizeVerbs  = []string{"create", "update"}
)

func isNamespaces(k kinds.Kind) bool { return k.Group == "" && k.Resource == namespace.Resource }

func newResource(k kinds.Kind) resource {
	r := resource{Kind: k, singular: cmp.Or(k.Singular, strings.ToLower(k.Kind)), verbs: contentVerbs}
	switch {
	case isNamespaces(k):
		r.verbs = namespaceVerbs
		r.subresources = []subresource{{"finalize", finalizeVerbs}, {"status", statusVerbs}}
	case k.Status:
		r.subresources = []subresource{{"status", statusVerbs}}
	}
	return r
}

// groups sorts the kinds and namespaces: groups by name, the core group first; versions by
// the preference of Kubernetes (v2, v1, v1beta2, ...); resources by name.
func groups(list []kinds.Kind) []group {
	if !slices.ContainsFunc(list, isNamespaces) {
		list = append(slices.Clone(list), kinds.Namespaces())
	}
	byVersion := map[[2]string]*groupVersion{}
	for _, k := range list {
		key := [2]string{k.Group, k.Version}
		if byVersion[key] == nil {
			byVersion[key] = &groupVersion{group: k.Group, version: k.Version}
		}
		byVersion[key].resources = append(byVersion[key].resources, newResource(k))
	}
	byName := map[string]*group{}
	for _, v := range byVersion {
		slices.SortFunc(v.resources, func(a, b resource) int { return cmp.Compare(a.Resource, b.Resource) })
		if byName[v.group] == nil {
			byName[v.group] = &group{name: v.group}
		}
		byName[v.group].versions = append(byName[v.group].versions, *v)
	}
	out := make([]group, 0, len(byName))
	for _, g := range byName {
		slices.SortFunc(g.versions, func(a, b groupVersion) int { return version.CompareKubeAwareVersionStrings(b.version, a.version) })
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b group) int { return cmp.Compare(a.name, b.name) })
	return out
}

// list returns the resource list of a version.
func (v groupVersion) list() *metav1.APIResourceList {
	out := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: v.String(),
		APIResources: []metav1.APIResource{},
	}
	for _, r := range v.resources {
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name: r.Resource, SingularName: r.singular, Namespaced: r.Namespaced, Kind: r.Type.Kind,
			Verbs: r.verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
		for _, s := range r.subresources {
			out.APIResources = append(out.APIResources, metav1.APIResource{
				Name: r.Resource + "/" + s.name, Namespaced: r.Namespaced, Kind: r.Type.Kind, Verbs: s.verbs,
			})
		}
	}
	return out
}

// describe returns the entry of a group in the list of groups.
func (g group) describe() metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.version})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

// aggregated returns the document with all resources of groups. Both versions of the document
// have the same fields.
func aggregated(groups []group, version string) *apidiscovery.APIGroupDiscoveryList {
	out := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/" + version},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	for _, g := range groups {
		item := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			item.Versions = append(item.Versions, v.aggregated())
		}
		out.Items = append(out.Items, item)
	}
	return out
}

func (v groupVersion) aggregated() apidiscovery.APIVersionDiscovery {
	out := apidiscovery.APIVersionDiscovery{Version: v.version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	for _, r := range v.resources {
		kind := &metav1.GroupVersionKind{Group: v.group, Version: v.version, Kind: r.Type.Kind}
		scope := apidiscovery.ScopeCluster
		if r.Namespaced {
			scope = apidiscovery.ScopeNamespace
		}
		entry := apidiscovery.APIResourceDiscovery{
			Resource: r.Resource, ResponseKind: kind, Scope: scope, SingularResource: r.singular,
			Verbs: r.verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		}
		for _, s := range r.subresources {
			entry.Subresources = append(entry.Subresources, apidiscovery.APISubresourceDiscovery{
				Subresource: s.name, ResponseKind: kind, Verbs: s.verbs,
			})
		}
		out.Resources = append(out.Resources, entry)
	}
	return out
}

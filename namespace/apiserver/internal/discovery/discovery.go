// Package discovery tells clients which resources a server has: the group lists,
// the resource lists, aggregated discovery, and the version. Everything is made
// from the declared kinds, once.
package discovery

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// group is an API group with its versions, the preferred one first.
type group struct {
	name     string
	versions []groupVersion
}

// groupVersion is the resources of one version of a group, ordered by name.
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

// resource is one kind as discovery shows it.
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

// The verbs, in the order in which Kubernetes lists them.
var (
	contentVerbs   = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	namespaceVerbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"} // no collection of namespaces is deleted
	statusVerbs    = []string{"get", "patch", "update"}
	finalizeVerbs  = []string{"create", "update"} // the design document's POST, and PUT
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

// groups orders the kinds: the core group first, then groups by name, their
// versions from the most to the least preferred as Kubernetes prefers them
// (v2, v1, v1beta2, ...), resources by name. Namespaces are always there.
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
			Name: r.Resource, SingularName: r.singular, Namespaced: r.Namespaced, Kind: r.Kind.Kind,
			Verbs: r.verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
		for _, s := range r.subresources {
			out.APIResources = append(out.APIResources, metav1.APIResource{
				Name: r.Resource + "/" + s.name, Namespaced: r.Namespaced, Kind: r.Kind.Kind, Verbs: s.verbs,
			})
		}
	}
	return out
}

// describe returns what the list of groups says about a group.
func (g group) describe() metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.version})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

package discovery

import (
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// aggregated returns the groups with all their resources in one document. Both of
// its versions have the same fields.
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
		kind := &metav1.GroupVersionKind{Group: v.group, Version: v.version, Kind: r.Kind.Kind}
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

package apiserver

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// TestRouteOf checks how requests map to attributes. The fields of want are verb, group, version,
// resource, subresource, namespace and name; "." is an empty field.
func TestRouteOf(t *testing.T) {
	for _, tt := range []struct{ method, target, want, flags string }{
		{"GET", "/api/v1/namespaces", "list . v1 namespaces . . .", ""},
		{"GET", "/api/v1/namespaces/", "list . v1 namespaces . . .", ""},
		{"GET", "/api/v1/namespaces?watch=1", "watch . v1 namespaces . . .", ""},
		{"GET", "/api/v1/namespaces?watch", "watch . v1 namespaces . . .", ""},
		{"GET", "/api/v1/namespaces?watch=false", "list . v1 namespaces . . .", ""},
		{"GET", "/api/v1/namespaces?fieldSelector=metadata.name%3Dx&watch=true", "watch . v1 namespaces . x x", ""},
		{"GET", "/api/v1/namespaces?fieldSelector=metadata.name!%3Dx", "list . v1 namespaces . . .", ""},
		{"GET", "/api/v1/namespaces?fieldSelector=metadata.name%3Dx&fieldSelector=metadata.name%3Dy", "list . v1 namespaces . . .", ""},
		{"POST", "/api/v1/namespaces", "create . v1 namespaces . . .", ""},
		{"DELETE", "/api/v1/namespaces", "deletecollection . v1 namespaces . . .", ""},
		{"GET", "/api/v1/namespaces/x", "get . v1 namespaces . x x", "item"},
		{"GET", "/api/v1/namespaces/x?watch=1", "get . v1 namespaces . x x", "item"},
		{"HEAD", "/api/v1/namespaces/x", "get . v1 namespaces . x x", "item"},
		{"PUT", "/api/v1/namespaces/x", "update . v1 namespaces . x x", "item"},
		{"PATCH", "/api/v1/namespaces/x", "patch . v1 namespaces . x x", "item"},
		{"DELETE", "/api/v1/namespaces/x", "delete . v1 namespaces . x x", "item"},
		{"PUT", "/api/v1/namespaces/x/status", "update . v1 namespaces status x x", "item"},
		{"PUT", "/api/v1/namespaces/x/finalize", "update . v1 namespaces finalize x x", "item"},
		{"POST", "/api/v1/namespaces/x/finalize", "update . v1 namespaces finalize x x", "item"},
		{"GET", "/api/v1/namespaces/finalize", "get . v1 namespaces . finalize finalize", "item"},
		{"GET", "/api/v1/namespaces/x/configmaps", "list . v1 configmaps . x .", ""},
		{"POST", "/api/v1/namespaces/x/configmaps/", "create . v1 configmaps . x .", ""},
		{"DELETE", "/api/v1/namespaces/x/configmaps", "deletecollection . v1 configmaps . x .", ""},
		{"GET", "/api/v1/namespaces/x/configmaps?fieldSelector=metadata.name%3Da", "list . v1 configmaps . x a", ""},
		{"GET", "/api/v1/namespaces/x/configmaps/a", "get . v1 configmaps . x a", "item"},
		{"GET", "/api/v1/namespaces/x/configmaps/a/status", "get . v1 configmaps status x a", "item"},
		{"GET", "/api/v1/configmaps", "list . v1 configmaps . . .", ""},
		{"GET", "/apis/example.com/v1/namespaces/x/widgets/a", "get example.com v1 widgets . x a", "item"},
		{"GET", "/apis/example.com/v1/namespaces/x/status/a", "get example.com v1 status . x a", "item"},
		{"GET", "/apis/example.com/v1/widgets?watch=true", "watch example.com v1 widgets . . .", ""},
		{"GET", "/apis/example.com/v1/racks/r", "get example.com v1 racks . . r", "item"},
		{"GET", "/api/v1/watch/namespaces", "watch . v1 namespaces . . .", "document"},
		{"GET", "/api/v1/watch/namespaces/x", "watch . v1 namespaces . x x", "item document"},
		{"GET", "/api/v1/watch/namespaces/x/configmaps", "watch . v1 configmaps . x .", "document"},
		{"GET", "/api/v1/watch/namespaces/x/configmaps/a", "watch . v1 configmaps . x a", "item document"},
		{"GET", "/api/v1/watch/configmaps", "watch . v1 configmaps . . .", "document"},
		{"GET", "/apis/example.com/v1/watch/widgets", "watch example.com v1 widgets . . .", "document"},
		{"GET", "/api/v1/list/configmaps", "list . v1 configmaps . . .", "document"},
		{"GET", "/apis/example.com/v1/list/widgets", "list example.com v1 widgets . . .", "document"},
		{"GET", "/api/v1/list/namespaces/x/configmaps", "list . v1 configmaps . x .", "document malformed"},
		{"GET", "/api/v1/watch/namespaces/x/status", "watch . v1 namespaces status x x", "item document malformed"},
		{"GET", "/api/v1/watch", "watch . v1 . . . .", "document malformed"},
		{"GET", "/apis/example.com/v1/namespaces/x", "list example.com v1 . . x .", "malformed"},
		{"GET", "/api/v1/namespaces/x/configmaps/a/b/c", "get . v1 configmaps . x a", "item malformed"},
		{"GET", "/api/v1/namespaces/a%2Fb", "get . v1 namespaces . a/b a/b", "item"},
		{"GET", "/api/v1/namespaces/x/configmaps/%2e%2e", "get . v1 configmaps . x ..", "item"},
		{"GET", "/api/v1/namespaces/../namespaces", "list . v1 . . .. .", "malformed"},
		{"OPTIONS", "/api/v1/namespaces", "options . v1 namespaces . . .", ""},
	} {
		t.Run(tt.method+" "+tt.target, func(t *testing.T) {
			rt := routeOf(httptest.NewRequest(tt.method, tt.target, nil))
			want := attributesOf(tt.want)
			want.Path = rt.Path
			if d := cmp.Diff(want, rt.Attributes); d != "" {
				t.Errorf("attributes (-want +is):\n%s", d)
			}
			var flags []string
			for _, f := range []struct {
				set  bool
				name string
			}{{rt.item, "item"}, {rt.document, "document"}, {rt.malformed, "malformed"}} {
				if f.set {
					flags = append(flags, f.name)
				}
			}
			if is := strings.Join(flags, " "); is != tt.flags || !rt.isResource {
				t.Errorf("flags %q, resource %t, want %q and true", is, rt.isResource, tt.flags)
			}
		})
	}
}

func attributesOf(text string) authorization.Attributes {
	f := strings.Fields(strings.ReplaceAll(text, " . ", "  . "))
	for i := range f {
		if f[i] == "." {
			f[i] = ""
		}
	}
	return authorization.Attributes{Verb: f[0], Group: f[1], Version: f[2], Resource: f[3], Subresource: f[4], Namespace: f[5], Name: f[6]}
}

func TestRouteOfOtherPaths(t *testing.T) {
	for _, target := range []string{"/", "/api", "/api/", "/api/v1", "/api/v1/", "/apis", "/apis/example.com/v1/", "/healthz", "/version", "/x/y/z"} {
		rt := routeOf(httptest.NewRequest("GET", target, nil))
		if rt.isResource || rt.malformed || rt.Verb != "get" || rt.Path != target {
			t.Errorf("%s: %+v", target, rt)
		}
	}
	for _, target := range []string{"/api//v1/namespaces", "/api/v1/namespaces//x", "/api/v1/namespaces/x//"} {
		rt := routeOf(httptest.NewRequest("GET", "http://host"+target, nil))
		if !rt.malformed {
			t.Errorf("%s: an empty segment was let through: %+v", target, rt)
		}
	}
}

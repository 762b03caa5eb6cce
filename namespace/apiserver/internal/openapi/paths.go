package openapi

import (
	"cmp"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
)

// served is a kind and its definitions.
type served struct {
	kinds.Kind
	object, list string // names of definitions
}

func (k served) namespaces() bool { return k.Group == "" && k.Resource == namespace.Resource }

// base returns the path of the resources of a version.
func (k served) base() string {
	if k.Group == "" {
		return "/api/" + k.Version
	}
	return "/apis/" + k.Group + "/" + k.Version
}

// media returns the media types of bodies.
func (k served) media() []string {
	if k.BuiltIn() {
		return []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	}
	return []string{"application/json", "application/yaml"}
}

// patches returns the media types of patches.
func (k served) patches() []string {
	if k.BuiltIn() {
		return []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
	}
	return []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
}

// paths adds the paths of a kind.
func (k served) paths(into map[string]spec.PathItem) {
	base, scope := k.base(), ""
	var outer []spec.Parameter
	if k.Namespaced {
		into[base+"/"+k.Resource] = spec.PathItem{PathItemProps: spec.PathItemProps{Get: k.collection("list", "ForAllNamespaces")}}
		base, scope = base+"/namespaces/{namespace}", "Namespaced"
		outer = []spec.Parameter{inPath("namespace", "the namespace of the objects")}
	}
	all := spec.PathItem{PathItemProps: spec.PathItemProps{
		Get: k.collection("list", scope), Post: k.write("post", "create", scope), Parameters: outer,
	}}
	if !k.namespaces() {
		all.Delete = k.collection("deletecollection", scope)
	}
	into[base+"/"+k.Resource] = all
	one := append(outer, inPath("name", "the name of the object"))
	path := base + "/" + k.Resource + "/{name}"
	into[path] = spec.PathItem{PathItemProps: spec.PathItemProps{
		Get: k.read(scope), Put: k.write("put", "replace", scope), Patch: k.patch(scope), Delete: k.remove(scope), Parameters: one,
	}}
	if k.Status || k.namespaces() {
		into[path+"/status"] = spec.PathItem{PathItemProps: spec.PathItemProps{
			Get: k.read(scope, "Status"), Put: k.write("put", "replace", scope, "Status"), Patch: k.patch(scope, "Status"), Parameters: one,
		}}
	}
	if k.namespaces() {
		into[path+"/finalize"] = spec.PathItem{PathItemProps: spec.PathItemProps{
			Put: k.write("put", "replace", scope, "Finalize"), Post: k.write("post", "create", scope, "Finalize"), Parameters: one,
		}}
	}
}

// streams adds the design proposal's paths for watches and lists across namespaces.
func (k served) streams(into map[string]spec.PathItem) {
	watch := func(path, action, scope, suffix string, parameters ...spec.Parameter) {
		op := answer(queries(k.operation(action, "watch", scope, suffix), listParameters), watchEventName, 200)
		into[path] = spec.PathItem{PathItemProps: spec.PathItemProps{Get: op, Parameters: parameters}}
	}
	base, name := k.base()+"/watch/", inPath("name", "the name of the object")
	if !k.Namespaced {
		watch(base+k.Resource, "watchlist", "", "List")
		watch(base+k.Resource+"/{name}", "watch", "", "", name)
		return
	}
	in := inPath("namespace", "the namespace of the objects")
	within := base + "namespaces/{namespace}/" + k.Resource
	watch(base+k.Resource, "watchlist", "", "ListForAllNamespaces")
	watch(within, "watchlist", "Namespaced", "List", in)
	watch(within+"/{name}", "watch", "Namespaced", "", in, name)
	into[k.base()+"/list/"+k.Resource] = spec.PathItem{PathItemProps: spec.PathItemProps{
		Get: answer(queries(k.operation("list", "list", "", "ListForAllNamespaces"), listParameters), k.list, 200),
	}}
}

// operation returns the common part of an operation. Clients find supported parameters by
// its kind and action.
func (k served) operation(action, verb, scope string, sub ...string) *spec.Operation {
	group := strings.Split(cmp.Or(k.Group, "core"), ".")[0]
	op := &spec.Operation{OperationProps: spec.OperationProps{
		ID:       verb + title(group) + title(k.Version) + scope + k.Type.Kind + strings.Join(sub, ""),
		Tags:     []string{group + "_" + k.Version},
		Produces: k.media(),
	}}
	op.AddExtension(extensionAction, action)
	op.AddExtension(extensionKind, map[string]any{"group": k.Group, "version": k.Version, "kind": k.Type.Kind})
	return op
}

func (k served) collection(action, scope string) *spec.Operation {
	if scope == "ForAllNamespaces" {
		op := k.operation(action, action, "", scope)
		return answer(queries(op, listParameters), k.list, 200)
	}
	if action == "list" {
		return answer(queries(k.operation(action, action, scope), listParameters), k.list, 200)
	}
	op := queries(k.operation(action, "deleteCollection", scope), selectParameters, deleteParameters)
	return answer(withBody(op, deleteOptionsName, k.media(), false), statusName, 200)
}

func (k served) read(scope string, sub ...string) *spec.Operation {
	return answer(queries(k.operation("get", "read", scope, sub...)), k.object, 200)
}

func (k served) write(action, verb, scope string, sub ...string) *spec.Operation {
	op := queries(k.operation(action, verb, scope, sub...), writeParameters)
	return answer(withBody(op, k.object, k.media(), true), k.object, 200, 201)
}

func (k served) patch(scope string, sub ...string) *spec.Operation {
	op := queries(k.operation("patch", "patch", scope, sub...), writeParameters, patchParameters)
	return answer(withBody(op, patchName, k.patches(), true), k.object, 200, 201)
}

func (k served) remove(scope string) *spec.Operation {
	op := queries(k.operation("delete", "delete", scope), deleteParameters)
	result := statusName
	if k.namespaces() {
		result = k.object
	}
	return answer(withBody(op, deleteOptionsName, k.media(), false), result, 200)
}

func withBody(op *spec.Operation, definition string, media []string, required bool) *spec.Operation {
	op.Consumes = media
	op.Parameters = append(op.Parameters, spec.Parameter{ParamProps: spec.ParamProps{
		Name: "body", In: "body", Required: required, Schema: refTo(definition),
	}})
	return op
}

func answer(op *spec.Operation, definition string, codes ...int) *spec.Operation {
	op.Responses = &spec.Responses{ResponsesProps: spec.ResponsesProps{StatusCodeResponses: map[int]spec.Response{}}}
	for _, code := range codes {
		text := "OK"
		if code == 201 {
			text = "Created"
		}
		op.Responses.StatusCodeResponses[code] = spec.Response{ResponseProps: spec.ResponseProps{Description: text, Schema: refTo(definition)}}
	}
	return op
}

func refTo(definition string) *spec.Schema {
	// Names of definitions consist of groups, versions and Go types: they are valid references.
	return &spec.Schema{SchemaProps: spec.SchemaProps{Ref: spec.MustCreateRef(definitionsPrefix + definition)}}
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// query is a query parameter of an operation.
type query struct{ name, kind, description string }

var (
	selectParameters = []query{
		{"continue", "string", "the token of the next page, from the metadata of the page before"},
		{"fieldSelector", "string", "selects objects by fields; default: everything"},
		{"labelSelector", "string", "selects objects by labels; default: everything"},
		{"limit", "integer", "the maximum number of objects in the answer"},
		{"resourceVersion", "string", "the version of the store to read"},
		{"resourceVersionMatch", "string", "the meaning of resourceVersion: Exact or NotOlderThan"},
		{"timeoutSeconds", "integer", "ends the call after this many seconds"},
	}
	listParameters = append([]query{
		{"allowWatchBookmarks", "boolean", "a watch may send bookmarks: events with the current resource version"},
		{"sendInitialEvents", "boolean", "a watch begins with the existing objects, followed by a bookmark"},
		{"watch", "boolean", "watch for changes rather than list"},
	}, selectParameters...)
	writeParameters = []query{
		{"dryRun", "string", "All: the change is checked but not made"},
		{"fieldManager", "string", "the name of the client that makes the change; required for apply patches"},
		{"fieldValidation", "string", "the handling of unknown and duplicate fields: Ignore, Warn or Strict"},
	}
	patchParameters = []query{
		{"force", "boolean", "an apply patch takes ownership of conflicting fields; not for other patches"},
	}
	deleteParameters = []query{
		{"dryRun", "string", "All: the change is checked but not made"},
		{"gracePeriodSeconds", "integer", "accepted; objects are deleted at once"},
		{"orphanDependents", "boolean", "accepted; superseded by propagationPolicy"},
		{"propagationPolicy", "string", "accepted: Orphan, Background or Foreground"},
	}
)

// queries adds query parameters to an operation.
func queries(op *spec.Operation, lists ...[]query) *spec.Operation {
	op.Parameters = append(op.Parameters, parameter(query{"pretty", "string", "true: the answer is indented"}))
	for _, list := range lists {
		for _, q := range list {
			op.Parameters = append(op.Parameters, parameter(q))
		}
	}
	return op
}

func parameter(q query) spec.Parameter {
	return spec.Parameter{
		ParamProps:   spec.ParamProps{Name: q.name, In: "query", Description: q.description},
		SimpleSchema: spec.SimpleSchema{Type: q.kind},
	}
}

func inPath(name, description string) spec.Parameter {
	return spec.Parameter{
		ParamProps:   spec.ParamProps{Name: name, In: "path", Description: description, Required: true},
		SimpleSchema: spec.SimpleSchema{Type: "string"},
	}
}

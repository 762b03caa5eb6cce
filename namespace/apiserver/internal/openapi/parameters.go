package openapi

import "k8s.io/kube-openapi/pkg/validation/spec"

// query is one query parameter of an operation.
type query struct{ name, kind, description string }

var (
	selectParameters = []query{
		{"continue", "string", "the token of the next page, from the metadata of the page before"},
		{"fieldSelector", "string", "selects objects by fields; default: everything"},
		{"labelSelector", "string", "selects objects by labels; default: everything"},
		{"limit", "integer", "the greatest number of objects in the answer"},
		{"resourceVersion", "string", "which state of the store is asked for"},
		{"resourceVersionMatch", "string", "how resourceVersion is meant: Exact or NotOlderThan"},
		{"timeoutSeconds", "integer", "ends the call after so many seconds"},
	}
	listParameters = append([]query{
		{"allowWatchBookmarks", "boolean", "a watch may send bookmarks: events that tell how far it has come"},
		{"sendInitialEvents", "boolean", "a watch begins with the objects that there are, and a bookmark after them"},
		{"watch", "boolean", "watch for changes rather than list"},
	}, selectParameters...)
	writeParameters = []query{
		{"dryRun", "string", "All: the change is checked but not made"},
		{"fieldManager", "string", "the name of who makes the change; required for apply patches"},
		{"fieldValidation", "string", "what happens to unknown and duplicate fields: Ignore, Warn or Strict"},
	}
	patchParameters = []query{
		{"force", "boolean", "an apply patch takes over the fields of others; not for other patches"},
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

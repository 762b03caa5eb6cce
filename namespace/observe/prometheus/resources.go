package prometheus

import (
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// other is the label of all that has none of its own.
const other = "other"

// The indices of what is no resource type. No valid type has such a label.
const (
	discovery = iota // some groups of resource types could not be discovered
	parsing          // some resource types could not be read
	whole            // the deleter itself failed
	rest             // the resource types beyond the bound
)

// resources are the resource types that were heard of, up to a bound.
type resources struct {
	list  []resource
	index map[namespace.ResourceType]int
	most  int
}

// resource is what is counted of one type.
type resource struct {
	label   string
	deleted float64
	failing int
	failed  bool // ever
}

func newResources(most int) resources {
	return resources{
		list:  []resource{discovery: {label: "(discovery)"}, parsing: {label: "(parsing)"}, whole: {label: "(deleter)"}, rest: {label: other}},
		index: map[namespace.ResourceType]int{},
		most:  most,
	}
}

// count adds what report tells to have been deleted.
func (r *resources) count(report deleter.Report) {
	for _, one := range report.Results {
		if one.Deleted > 0 {
			r.list[r.of(one.Resource)].deleted += float64(one.Deleted)
		}
	}
}

// of returns the index of a type. Only types that have something to tell are asked
// for, so that those that are always empty take no label.
func (r *resources) of(one namespace.ResourceType) int {
	i, ok := r.index[one]
	switch {
	case ok:
		return i
	case len(r.index) >= r.most:
		return rest
	}
	text := label(one)
	// Two types of one label are one: metrics with the same labels would be refused.
	i = slices.IndexFunc(r.list, func(known resource) bool { return known.label == text })
	if i < 0 {
		i = len(r.list)
		r.list = append(r.list, resource{label: text})
	}
	r.index[one] = i
	return i
}

// label is the name of a type as a label's value: a custom deleter may name it
// anything.
func label(one namespace.ResourceType) string {
	const most = 2*253 + 1
	text := strings.ToValidUTF8(one.String(), "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

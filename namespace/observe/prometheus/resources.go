package prometheus

import (
	"slices"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// other is the label of everything without a label of its own.
const other = "other"

// The indices of entries that are not resource types. No valid type has such a label.
const (
	discovery = iota // some groups of resource types could not be discovered
	parsing          // some resource types could not be read
	whole            // the deleter itself failed
	rest             // the resource types beyond the limit
)

// resources are the reported resource types, up to a limit.
type resources struct {
	list  []resource
	index map[namespace.ResourceType]int
	limit int
}

// resource is the metrics of one type.
type resource struct {
	label   string
	deleted float64
	failing int
	failed  bool // ever
}

func newResources(limit int) resources {
	return resources{
		list:  []resource{discovery: {label: "(discovery)"}, parsing: {label: "(parsing)"}, whole: {label: "(deleter)"}, rest: {label: other}},
		index: map[namespace.ResourceType]int{},
		limit: limit,
	}
}

// count adds the deleted objects of a report.
func (r *resources) count(report deleter.Report) {
	for _, one := range report.Results {
		if one.Deleted > 0 {
			r.list[r.of(one.Resource)].deleted += float64(one.Deleted)
		}
	}
}

// of returns the index of a type. It is only called for types with something to report, so
// types that are always empty take no label.
func (r *resources) of(one namespace.ResourceType) int {
	i, ok := r.index[one]
	switch {
	case ok:
		return i
	case len(r.index) >= r.limit:
		return rest
	}
	text := label(one)
	// Types with the same label share an index: a registry rejects equal labels.
	i = slices.IndexFunc(r.list, func(known resource) bool { return known.label == text })
	if i < 0 {
		i = len(r.list)
		r.list = append(r.list, resource{label: text})
	}
	r.index[one] = i
	return i
}

// label returns the name of a type as the value of a label. A custom deleter may use any name.
func label(one namespace.ResourceType) string { return phase.Truncate(one.String(), 2*253+1) }

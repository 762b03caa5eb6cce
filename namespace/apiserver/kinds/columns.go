package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Printed returns the columns of the kind's Table: the object's name, then Columns or, if there
// are none, the age. If Columns contains a column named "Name", Printed adds no other.
func (k Kind) Printed() []Column {
	columns := k.Columns
	if len(columns) == 0 {
		columns = []Column{age}
	}
	if slices.ContainsFunc(columns, func(c Column) bool { return c.Name == nameColumn }) {
		return columns
	}
	return append([]Column{name}, columns...)
}

const nameColumn = "Name"

var name = Column{
	Name: nameColumn, Format: "name", Description: doc(metav1.ObjectMeta{}, "name"),
	Value: func(o registry.Object) any { return o.Name },
}

// Age returns a column with the time since an object's creation, such as "5m".
func Age() Column { return age }

var age = Column{
	Name: "Age", Description: doc(metav1.ObjectMeta{}, "creationTimestamp"),
	Value: func(o registry.Object) any { return since(o.CreationTimestamp.Time) },
}

func createdAt(o registry.Object) any {
	if o.CreationTimestamp.IsZero() {
		return unknown
	}
	return o.CreationTimestamp.UTC().Format(time.RFC3339)
}

// unknown is the cell for an unset time.
const unknown = "<unknown>"

func since(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(time.Since(t))
}

// stringAt returns a function that reads the string at a path. It returns "" if there is none.
func stringAt(path ...string) func(registry.Object) any {
	return func(o registry.Object) any {
		var text string
		decode(at(o, path...), &text)
		return text
	}
}

// countOf returns a function that counts the entries of objects and lists.
func countOf(fields ...string) func(registry.Object) any {
	return func(o registry.Object) any {
		count := int64(0)
		for _, field := range fields {
			count += entries(o.Fields[field])
		}
		return count
	}
}

// at returns the value at a path, or nil.
func at(o registry.Object, path ...string) json.RawMessage {
	value := o.Fields[path[0]]
	for _, step := range path[1:] {
		value = member(value, step)
	}
	return value
}

// decode reads a value and reports whether it has the expected type. Cells ignore errors, so that
// one malformed object does not fail the whole Table.
func decode(value json.RawMessage, into any) bool {
	return len(value) > 0 && json.Unmarshal(value, into) == nil
}

func quotaRequests(o registry.Object) any { return quotaUse(o, false) }

func quotaLimits(o registry.Object) any { return quotaUse(o, true) }

// quotaUse lists "name: used/hard" of the names with the prefix "limits." or of all others.
func quotaUse(o registry.Object, limits bool) string {
	var status corev1.ResourceQuotaStatus
	decode(o.Fields["status"], &status)
	var shown []string
	for _, name := range slices.Sorted(maps.Keys(status.Hard)) {
		if strings.HasPrefix(string(name), "limits.") == limits {
			used, hard := status.Used[name], status.Hard[name]
			shown = append(shown, fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String()))
		}
	}
	return strings.Join(shown, ", ")
}

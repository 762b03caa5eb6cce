package kinds

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Printed returns the columns of the kind's Table: the name, and the declared
// ones, or the age where none are declared. A kind that declares a column with
// the name "Name" has it where it declares it.
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

// Age returns the column that says how long ago an object was created, such as
// "5m".
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

// unknown is the cell of a time that is not set.
const unknown = "<unknown>"

func since(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(time.Since(t))
}

// stringAt returns what reads the text in a field; empty where there is none.
func stringAt(path ...string) func(registry.Object) any {
	return func(o registry.Object) any {
		var text string
		decode(at(o, path...), &text)
		return text
	}
}

// countOf returns what counts the entries of fields that are objects or lists.
func countOf(fields ...string) func(registry.Object) any {
	return func(o registry.Object) any {
		count := int64(0)
		for _, field := range fields {
			count += entries(o.Fields[field])
		}
		return count
	}
}

// at returns the value at a path; nothing where there is none.
func at(o registry.Object, path ...string) json.RawMessage {
	value := o.Fields[path[0]]
	for _, step := range path[1:] {
		value = member(value, step)
	}
	return value
}

// decode reads a value as far as it has the form that is expected: a cell shows
// what there is, and a Table is not refused because of one object.
func decode(value json.RawMessage, into any) bool {
	return len(value) > 0 && json.Unmarshal(value, into) == nil
}

package limitrange

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// validate returns the violations in the limits of one LimitRange.
func validate(limits []limit) (wrong []namespace.Violation) {
	seen := map[string]bool{}
	for _, l := range limits {
		if why := typeFault(l.kind); why != "" {
			wrong = append(wrong, namespace.InvalidField(l.at+".type", l.kind, why))
		}
		if seen[l.kind] {
			wrong = append(wrong, namespace.Violation{
				Type: namespace.FieldDuplicate, Field: l.at + ".type", Message: "Duplicate value: " + strconv.Quote(excerpt(l.kind)),
			})
		}
		seen[l.kind] = true
		if many := l.tooManyNames(); len(many) > 0 {
			wrong = append(wrong, many...)
			continue
		}
		wrong = append(wrong, l.validateNames()...)
		wrong = append(wrong, l.validateType()...)
		wrong = append(wrong, l.validateValues()...)
	}
	return wrong
}

func (l limit) validateNames() (wrong []namespace.Violation) {
	for _, field := range l.fields() {
		for _, name := range field.values.names() {
			if why := nameFault(name); why != "" {
				wrong = append(wrong, namespace.InvalidField(l.at+"."+field.name+"["+excerpt(name)+"]", name, why))
			}
		}
	}
	return wrong
}

func (l limit) validateType() (wrong []namespace.Violation) {
	switch l.kind {
	case string(corev1.LimitTypePod):
		for _, field := range []string{defaultField, requestField} {
			if object, _ := l.raw[field].(map[string]any); len(object) > 0 {
				wrong = append(wrong, namespace.ForbiddenField(l.at+"."+field, "may not be specified when `type` is 'Pod'"))
			}
		}
	case string(corev1.LimitTypePersistentVolumeClaim):
		_, least := l.min[string(corev1.ResourceStorage)]
		_, most := l.max[string(corev1.ResourceStorage)]
		if !least && !most {
			wrong = append(wrong, namespace.Violation{
				Type: namespace.FieldRequired, Field: l.at + ".limits",
				Message: "Required value: either minimum or maximum storage value is required, but neither was provided",
			})
		}
	}
	return wrong
}

// validateValues compares the quantities of each name with one another.
func (l limit) validateValues() (wrong []namespace.Violation) {
	for _, name := range l.allNames() {
		for _, pair := range []struct {
			low, high         amounts
			lowText, highText string
			field             string // of the violation
			reported          amounts
		}{
			{l.min, l.max, "min", "max", minField, l.min},
			{l.min, l.fallbackRequest, "min", "default request", requestField, l.fallbackRequest},
			{l.fallbackRequest, l.max, "default request", "max", requestField, l.fallbackRequest},
			{l.fallbackRequest, l.fallback, "default request", "default limit", requestField, l.fallbackRequest},
			{l.min, l.fallback, "min", "default", defaultField, l.fallback},
			{l.fallback, l.max, "default", "max", defaultField, l.fallback},
		} {
			low, ok := pair.low[name]
			high, too := pair.high[name]
			if ok && too && low.Cmp(high) > 0 {
				q := pair.reported[name]
				wrong = append(wrong, namespace.InvalidField(l.at+"."+pair.field+"["+name+"]", q.String(),
					pair.lowText+" value "+low.String()+" is greater than "+pair.highText+" value "+high.String()))
			}
		}
		if why := l.ratioFault(name); why != "" {
			q := l.ratio[name]
			wrong = append(wrong, namespace.InvalidField(l.at+"."+ratioField+"["+name+"]", q.String(), why))
		}
	}
	return wrong
}

func (l limit) ratioFault(name string) string {
	ratio, ok := l.ratio[name]
	if !ok {
		return ""
	}
	if ratio.Cmp(one) < 0 {
		return "ratio " + ratio.String() + " is less than 1"
	}
	least, ok := l.min[name]
	most, too := l.max[name]
	if !ok || !too || least.IsZero() || cmpProduct(least, ratio, most) <= 0 {
		return ""
	}
	return "ratio " + ratio.String() + " is greater than max/min = " + quotient(most, least)
}

var one = *resource.NewQuantity(1, resource.DecimalSI)

// quotient formats a/b.
func quotient(a, b resource.Quantity) string {
	return strconv.FormatFloat(a.AsApproximateFloat64()/b.AsApproximateFloat64(), 'f', 6, 64)
}

func typeFault(kind string) string {
	if wrong := syntax.QualifiedName(kind); len(wrong) > 0 {
		return strings.Join(wrong, "; ")
	}
	switch corev1.LimitType(kind) {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		return ""
	}
	if !strings.Contains(kind, "/") {
		return "must be a standard limit type or fully qualified"
	}
	return ""
}

func nameFault(name string) string {
	if wrong := syntax.QualifiedName(name); len(wrong) > 0 {
		return strings.Join(wrong, "; ")
	}
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage:
		return ""
	}
	if !strings.Contains(name, "/") && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
		return "must be a standard resource type or fully qualified"
	}
	return ""
}

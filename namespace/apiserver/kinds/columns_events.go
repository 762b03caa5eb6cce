package kinds

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

func eventColumns() []Column {
	event, source := corev1.Event{}, corev1.ObjectReference{}
	name := name
	name.Priority = 1
	return []Column{
		{Name: "Last Seen", Description: doc(event, "lastTimestamp"), Value: func(o registry.Object) any { return lastSeen(o) }},
		{Name: "Type", Description: doc(event, "type"), Value: stringAt("type")},
		{Name: "Reason", Description: doc(event, "reason"), Value: stringAt("reason")},
		{Name: "Object", Description: doc(event, "involvedObject"), Value: involved},
		{Name: "Subobject", Priority: 1, Description: doc(source, "fieldPath"), Value: stringAt("involvedObject", "fieldPath")},
		{Name: "Source", Priority: 1, Description: doc(event, "source"), Value: eventSource},
		{Name: "Message", Description: doc(event, "message"), Value: eventMessage},
		{Name: "First Seen", Priority: 1, Description: doc(event, "firstTimestamp"), Value: func(o registry.Object) any { return firstSeen(o) }},
		{Name: "Count", Priority: 1, Description: doc(event, "count"), Value: eventCount},
		name,
	}
}

// series returns the event's series, or nil.
func series(o registry.Object) *corev1.EventSeries {
	var s *corev1.EventSeries
	decode(o.Fields["series"], &s)
	return s
}

func timeOf(o registry.Object, field string) time.Time {
	var t metav1.Time
	decode(o.Fields[field], &t)
	return t.Time
}

func firstSeen(o registry.Object) string {
	if t := timeOf(o, "firstTimestamp"); !t.IsZero() {
		return since(t)
	}
	return since(timeOf(o, "eventTime"))
}

func lastSeen(o registry.Object) string {
	if s := series(o); s != nil {
		return since(s.LastObservedTime.Time)
	}
	if t := timeOf(o, "lastTimestamp"); !t.IsZero() {
		return since(t)
	}
	return firstSeen(o)
}

func eventCount(o registry.Object) any {
	if s := series(o); s != nil {
		return int64(s.Count)
	}
	var count int64
	decode(o.Fields["count"], &count)
	return max(count, 1)
}

func involved(o registry.Object) any {
	var r corev1.ObjectReference
	decode(o.Fields["involvedObject"], &r)
	kind := strings.ToLower(r.Kind)
	if r.Name == "" {
		return kind
	}
	return kind + "/" + r.Name
}

func eventMessage(o registry.Object) any {
	var message string
	decode(o.Fields["message"], &message)
	return strings.TrimSpace(message)
}

// eventSource returns the event's reporter as "component, host".
func eventSource(o registry.Object) any {
	var source corev1.EventSource
	decode(o.Fields["source"], &source)
	if source.Component == "" {
		decode(o.Fields["reportingComponent"], &source.Component)
	}
	if source.Host == "" {
		decode(o.Fields["reportingInstance"], &source.Host)
	}
	if source.Host == "" {
		return source.Component
	}
	return source.Component + ", " + source.Host
}

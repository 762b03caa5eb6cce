package refusals

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// event is the part of a core/v1 Event that the recorder writes.
type event struct {
	InvolvedObject struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Name       string `json:"name"`
		Namespace  string `json:"namespace"`
	} `json:"involvedObject"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Source  struct {
		Component string `json:"component"`
	} `json:"source"`
	FirstTimestamp     phase.Time `json:"firstTimestamp"`
	LastTimestamp      phase.Time `json:"lastTimestamp"`
	Count              int32      `json:"count"`
	Type               string     `json:"type"`
	EventTime          *time.Time `json:"eventTime"` // of the newer kind of events: null
	ReportingComponent string     `json:"reportingComponent"`
	ReportingInstance  string     `json:"reportingInstance"`
}

// maxMessage is how many bytes the message of an event may have in Kubernetes.
const maxMessage = 1024

func eventOf(t *tally, component string) *event {
	a := t.refusal.Attributes
	e := &event{Reason: "Forbidden", Type: "Warning", Count: t.count, FirstTimestamp: phase.At(t.first), LastTimestamp: phase.At(t.last)}
	e.InvolvedObject.Kind, e.InvolvedObject.APIVersion = namespace.Kind, namespace.APIVersion
	e.InvolvedObject.Name, e.InvolvedObject.Namespace = a.Namespace, a.Namespace
	e.Source.Component, e.ReportingComponent = component, component
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	what := fmt.Sprintf("resource %q in API group %q", resource, a.Group)
	if resource == "" {
		what = "resources that are not served"
	}
	e.Message = fmt.Sprintf("User %q cannot %s %s in the namespace %q", t.refusal.User.Name, a.Verb, what, a.Namespace)
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage-len("...")], "") + "..."
	}
	return e
}

// add takes over what an earlier event counted, if it is about the same.
func (e *event) add(old registry.Object) {
	var message string
	var count int32
	var first phase.Time
	if json.Unmarshal(old.Fields["message"], &message) != nil || message != e.Message ||
		json.Unmarshal(old.Fields["count"], &count) != nil || count < 0 ||
		json.Unmarshal(old.Fields["firstTimestamp"], &first) != nil || first.IsZero() {
		return
	}
	e.Count = int32(min(int64(count)+int64(e.Count), math.MaxInt32))
	e.FirstTimestamp = first
}

// object returns the event as content.
func (e *event) object(name, version string) (registry.Object, error) {
	o := registry.Object{Meta: namespace.Meta{Name: name, ResourceVersion: version}}
	document, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(document, &o.Fields)
	}
	return o, err
}

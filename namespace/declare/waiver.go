package declare

import (
	"errors"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Waiver is an operator's declaration that a failing source has no objects of a namespace. It
// is an annotation, {WaiverPrefix}{Name}, with a JSON object as its value:
//
//	waiver.nslifecycle.io/metrics: '{"source":"metrics.example.com","by":"ada","reason":"uninstalled","until":"2026-01-02T15:04:05Z"}'
//
// Every client that may update the namespace may set it. A waiver applies until Until, to
// passes over its namespace, and only while the source fails: an answer of the source takes
// precedence. It does not apply if objects of the source were seen and it has not answered since;
// the failure then says so. The namespace's status records the seen objects for later
// passes and other processes ([phase.ContentLastSeen]).
//
// A Source that can be read as both, such as "metrics.example.com" (the resource type metrics
// of the group example.com, or a group), stands for both.
type Waiver struct {
	Name   string    `json:"name"`   // the name part of the annotation's key: at most 63 bytes
	Source string    `json:"source"` // a resource type ("widgets.example.com") or a group whose discovery fails
	By     string    `json:"by"`     // the operator, unverified; at most 512 bytes
	Reason string    `json:"reason"` // at most 1024 bytes
	Until  time.Time `json:"until"`
}

// Waivers returns the waivers of a namespace, sorted by name, including expired ones. It
// leaves out unreadable waivers, which waive nothing, and returns an [*namespace.Error] of
// kind [namespace.ErrInvalid] with one cause for each of them.
func Waivers(m namespace.Meta) ([]Waiver, error) { return readAll(m, WaiverPrefix, readWaiver) }

// Expired reports whether w no longer applies: now is Until or later.
func (w Waiver) Expired(now time.Time) bool { return !now.Before(w.Until) }

// Annotation returns the annotation that declares w. The error is an [*namespace.Error] of
// kind [namespace.ErrInvalid] if a field is missing, too long or not of one line.
func (w Waiver) Annotation() (key, value string, err error) {
	return writeAnnotation(WaiverPrefix+w.Name, w.fields())
}

func (w *Waiver) fields() []field {
	return []field{
		{name: "source", text: &w.Source, limit: maxSource, verify: checkSource},
		{name: "by", text: &w.By, limit: maxName},
		{name: "reason", text: &w.Reason, limit: maxReason},
		{name: "until", time: &w.Until, limit: maxTime},
	}
}

func readWaiver(key, value string) (Waiver, error) {
	w := Waiver{Name: strings.TrimPrefix(key, WaiverPrefix)}
	err := readAnnotation(key, value, w.fields())
	return w, err
}

// checkSource refuses a group with a version, such as "apps/v1", which no source is named.
func checkSource(s string) error {
	if strings.ContainsAny(s, "/ ") {
		return errors.New(`source must be a resource type such as "widgets.example.com" or a group such as "example.com", without a version`)
	}
	return nil
}

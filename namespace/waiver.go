package namespace

import (
	"errors"
	"strings"
	"time"
)

// WaiverPrefix begins the keys of the annotations that waive a failing source; what
// follows is the name of the waiver. Who may update a namespace may waive.
const WaiverPrefix = "waiver.nslifecycle.io/"

// Waiver is an operator's word that a source which fails holds nothing of a namespace.
// It is an annotation, {WaiverPrefix}{Name}; its value is a JSON object:
//
//	waiver.nslifecycle.io/metrics: '{"source":"metrics.example.com","by":"ada","reason":"uninstalled","until":"2026-01-02T15:04:05Z"}'
//
// It counts until Until, for passes over that namespace only, and only while the
// source fails: an answer of the source takes precedence. It does not count if objects of the
// source were seen, until the source answers; the failure then reports that. The namespace's
// status records the seen objects for later passes and other processes
// ([phase.ContentLastSeen]).
//
// A Source that may be read as both, as "metrics.example.com" is the resource type metrics
// of the group example.com and a group, stands for both.
type Waiver struct {
	Name   string    `json:"name"`   // as the name part of an annotation's key: at most 63 bytes
	Source string    `json:"source"` // a resource type ("widgets.example.com") or a group that cannot be discovered
	By     string    `json:"by"`     // who says so, as they claim: who wrote it is on record; at most 512 bytes
	Reason string    `json:"reason"` // why; at most 1024 bytes
	Until  time.Time `json:"until"`  // when it ends
}

// Waivers returns the waivers of a namespace, sorted by name, expired ones included.
// Those that cannot be read are left out, and are told in the error: an [*Error] of
// kind [ErrInvalid] with one cause each. They waive nothing.
func Waivers(m Meta) ([]Waiver, error) {
	return namedAnnotations(m, WaiverPrefix, readWaiver)
}

// Expired reports whether w no longer counts: now is Until, or later. A waiver without
// an end has none that counts: it is expired.
func (w Waiver) Expired(now time.Time) bool { return !now.Before(w.Until) }

// Annotation returns the annotation that declares w. The error is an [*Error] of kind
// [ErrInvalid] for a waiver that nobody could read: one without a name, a source, who
// says so, a reason or an end, or with a text that is too long or not of one line.
func (w Waiver) Annotation() (key, value string, err error) {
	key = WaiverPrefix + w.Name
	until, err := writeTime("until", w.Until)
	if err == nil {
		err = checkSource(w.Source)
	}
	if err != nil {
		return "", "", badDeclaration(key, err)
	}
	return writeAnnotation(key, w.members(&until))
}

func (w *Waiver) members(until *string) []member {
	return []member{
		{name: "source", value: &w.Source, limit: maxSource},
		{name: "by", value: &w.By, limit: maxWho},
		{name: "reason", value: &w.Reason, limit: maxWhy},
		{name: "until", value: until, limit: maxMoment},
	}
}

func readWaiver(key, text string) (Waiver, error) {
	w, until := Waiver{Name: key[len(WaiverPrefix):]}, ""
	err := readAnnotation(key, text, w.members(&until))
	if err == nil {
		err = checkSource(w.Source)
	}
	if err == nil {
		w.Until, err = readTime("until", until)
	}
	return w, err
}

// checkSource refuses what is neither a resource type nor a group, though it looks
// like one.
func checkSource(s string) error {
	if strings.ContainsAny(s, "/ ") {
		return errors.New(`source must be a resource type such as "widgets.example.com" or a group such as "example.com", without a version`)
	}
	return nil
}

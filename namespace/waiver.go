package namespace

import "time"

// WaiverPrefix begins the keys of the annotations that waive a failing source; what
// follows is the name of the waiver.
const WaiverPrefix = "waiver.nslifecycle.io/"

// Waiver is an operator's word that a source which fails holds nothing of a namespace.
// It is an annotation, {WaiverPrefix}{Name}. It counts until Until, for passes over
// that namespace only, and only while the source fails: what answers is believed.
type Waiver struct {
	Name   string    `json:"-"`
	Source string    `json:"source"` // a resource type ("widgets.example.com") or a group that cannot be discovered
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until"`
}

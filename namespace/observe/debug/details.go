package debug

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// mostRecords is how many audit records a page shows, the latest.
const mostRecords = 50

// details is the page of one namespace.
type details struct {
	Diagnosis explain.Diagnosis `json:"diagnosis"`
	Records   []audit.Record    `json:"audit,omitempty"` // the latest first
	Notes     []string          `json:"notes,omitempty"` // what is not complete, and why
	failed    bool
}

// namespace gathers the page of a namespace. What does not answer is noted on it.
func (h *Handler) namespace(ctx context.Context, name string) *details {
	d, err := h.explain(ctx, name)
	switch {
	case errors.Is(err, namespace.ErrNotFound), errors.Is(err, namespace.ErrBadRequest) && namespace.ValidateName(name) != nil:
		return &details{Diagnosis: explain.Diagnosis{Name: name, At: time.Now().UTC(), Summary: "There is no namespace of that name."}}
	case err != nil:
		return &details{
			Diagnosis: explain.Diagnosis{Name: name, At: time.Now().UTC(), Summary: "It could not be explained."},
			Notes:     []string{fmt.Sprintf("it could not be explained: %v", err)},
			failed:    true,
		}
	}
	n := &details{Diagnosis: d}
	h.records(ctx, n, name)
	return n
}

func (h *Handler) records(ctx context.Context, n *details, name string) {
	if h.options.Records == nil {
		return
	}
	err := safely(func() (err error) {
		n.Records, err = h.options.Records(ctx, name)
		return err
	})
	if err != nil {
		n.Notes = append(n.Notes, fmt.Sprintf("the audit records could not be read: %v", err))
	}
	if all := len(n.Records); all > mostRecords {
		n.Notes = append(n.Notes, fmt.Sprintf("there are %d audit records; the latest %d are shown", all, mostRecords))
		n.Records = n.Records[all-mostRecords:]
	}
	n.Records = slices.Clone(n.Records)
	slices.Reverse(n.Records)
}

func (n *details) template() string { return "namespace" }
func (n *details) title() string    { return n.Diagnosis.Name }

func (n *details) status() int {
	switch {
	case n.failed:
		return http.StatusInternalServerError
	case n.Diagnosis.Phase == "":
		return http.StatusNotFound
	}
	return http.StatusOK
}

// Phase is how the page names the phase.
func (n *details) Phase() string {
	switch {
	case n.failed:
		return "Unknown"
	case n.Diagnosis.Phase == "":
		return "Not there"
	}
	return string(n.Diagnosis.Phase)
}

// Headline is the summary where no cause says more.
func (n *details) Headline() string {
	if len(n.Diagnosis.Causes) > 0 {
		return ""
	}
	return n.Diagnosis.Summary
}

// Counted is when the oldest of what is told was counted, if that is long ago.
func (n *details) Counted() *oldCount { return oldestCount(&n.Diagnosis) }

// Timeline draws the passes.
func (n *details) Timeline() timeline { return newTimeline(n.Diagnosis.Passes) }

// Passes are the passes, the latest first.
func (n *details) Passes() []explain.Pass {
	passes := slices.Clone(n.Diagnosis.Passes)
	slices.Reverse(passes)
	return passes
}

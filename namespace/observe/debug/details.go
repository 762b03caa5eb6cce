package debug

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// maxRecords bounds the audit records on a page.
const maxRecords = 50

// details is the page of one namespace.
type details struct {
	Diagnosis explain.Diagnosis `json:"diagnosis"`
	Records   []audit.Record    `json:"audit,omitempty"` // the latest first
	Notes     []string          `json:"notes,omitempty"` // the missing parts, and why
	failed    bool
}

// namespace gathers the page of a namespace. Its notes list the parts that do not answer.
func (h *Handler) namespace(ctx context.Context, name string) *details {
	d, err := diagnose(ctx, h.explainer.Explain, name)
	switch {
	case errors.Is(err, namespace.ErrNotFound), errors.Is(err, namespace.ErrBadRequest) && namespace.ValidateName(name) != nil:
		return &details{Diagnosis: explain.Diagnosis{Name: name, At: time.Now().UTC(), Summary: "There is no namespace of that name."}}
	case err != nil:
		return &details{
			Diagnosis: explain.Diagnosis{Name: name, At: time.Now().UTC(), Summary: "The namespace cannot be explained."},
			Notes:     []string{fmt.Sprintf("the namespace cannot be explained: %v", err)},
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
	if all := len(n.Records); all > maxRecords {
		n.Notes = append(n.Notes, fmt.Sprintf("showing the latest %d of %d audit records", maxRecords, all))
		n.Records = n.Records[all-maxRecords:]
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

// Phase is the phase on the page.
func (n *details) Phase() string {
	switch {
	case n.failed:
		return "Unknown"
	case n.Diagnosis.Phase == "":
		return "Does not exist"
	}
	return string(n.Diagnosis.Phase)
}

// Headline is the summary if there are no causes, which say more.
func (n *details) Headline() string {
	if len(n.Diagnosis.Causes) > 0 {
		return ""
	}
	return n.Diagnosis.Summary
}

// Counted is the oldest outdated count of remaining objects.
func (n *details) Counted() *oldCount { return oldestCount(&n.Diagnosis) }

// Timeline draws the passes.
func (n *details) Timeline() timeline { return newTimeline(n.Diagnosis.Passes) }

// Passes are the passes, the latest first.
func (n *details) Passes() []explain.Pass {
	passes := slices.Clone(n.Diagnosis.Passes)
	slices.Reverse(passes)
	return passes
}

// The drawing of a timeline, in its own units.
const (
	timelineHeight = 56
	columnWidth    = 12
	columnGap      = 3
	minHeight      = 3 // of a column, so that every pass is visible
	maxColumns     = 64
)

// timeline draws each pass as a column. Its height is the number of remaining objects.
type timeline struct {
	Width, Height int
	Columns       []column
	First, Last   time.Time
	Most          int // objects at the full height
}

type column struct {
	X, Y, Width, Height int
	Class               string
	Title               string
}

func newTimeline(passes []explain.Pass) timeline {
	passes = passes[max(len(passes)-maxColumns, 0):]
	if len(passes) == 0 {
		return timeline{}
	}
	t := timeline{
		Width:  len(passes)*(columnWidth+columnGap) - columnGap,
		Height: timelineHeight,
		First:  passes[0].Start, Last: passes[len(passes)-1].Start,
	}
	for _, p := range passes {
		t.Most = max(t.Most, p.Remaining)
	}
	for i, p := range passes {
		height := minHeight
		if t.Most > 0 && p.Remaining > 0 {
			height += int(math.Round(float64(timelineHeight-minHeight) * float64(p.Remaining) / float64(t.Most)))
		}
		class := "busy"
		switch {
		case p.Error != "" || p.Outcome == "failed":
			class = "bad"
		case p.Remaining == 0:
			class = "good"
		}
		t.Columns = append(t.Columns, column{
			X: i * (columnWidth + columnGap), Y: timelineHeight - height, Width: columnWidth, Height: height, Class: class,
			Title: fmt.Sprintf("%s: %s, %s deleted, %s remaining, took %s", show.Date(p.Start), visible(p.Outcome),
				show.Number(p.Deleted), show.Number(p.Remaining), short(p.Took)),
		})
	}
	return t
}

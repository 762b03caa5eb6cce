package debug

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

// What one index costs at most, however many namespaces there are.
const (
	mostListed   = 10_000 // terminating namespaces whose names are read
	mostAged     = 1_000  // of those, how many are read for their age that was not known yet
	mostHolds    = 100    // namespaces on hold that are shown
	mostAgents   = 100    // agents that are shown
	mostParallel = 8      // reads at once
)

// index is the first page: what there is, and what is going.
type index struct {
	At          time.Time       `json:"at"`
	Active      *int            `json:"active,omitempty"` // nil: nobody counts them
	Counted     time.Time       `json:"counted,omitzero"` // when; not every turn
	Terminating int             `json:"terminating"`
	AtLeast     bool            `json:"atLeast,omitempty"` // there are more terminating than were counted
	Rows        []row           `json:"namespaces"`        // terminating ones, the oldest first
	OnHold      *int            `json:"onHold,omitempty"`  // nil: there are no holds here
	Holds       []held          `json:"holds,omitempty"`   // those that end next
	Agents      []parties.Party `json:"parties,omitempty"`
	Notes       []string        `json:"notes,omitempty"` // what is not complete, and why
}

// row is one terminating namespace.
type row struct {
	Name     string            `json:"name"`
	UID      string            `json:"uid"`
	At       time.Time         `json:"at"` // when it was explained
	Since    time.Time         `json:"since"`
	Stage    phase.Stage       `json:"stage,omitempty"`
	Progress *explain.Progress `json:"progress,omitempty"`
	Counted  time.Time         `json:"counted,omitzero"` // of what is left, the oldest; zero: all lately
	Cause    *explain.Cause    `json:"cause,omitempty"`  // the first
	Causes   int               `json:"causes"`           // how many there are
	Holders  []explain.Holder  `json:"holders,omitempty"`
	Error    string            `json:"error,omitempty"` // why it could not be explained
	gone     bool
}

// held is one namespace on hold.
type held struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
}

// index gathers the index, with a count that is oldestCount old at most. What does not
// answer is noted on it.
func (h *Handler) index(ctx context.Context, oldestCount time.Duration) *index {
	x := &index{At: time.Now().UTC(), Rows: []row{}}
	refs := h.terminating(ctx, x)
	h.count(ctx, x, oldestCount)
	h.holds(ctx, x)
	h.agents(ctx, x)
	oldest, unread := h.oldest(ctx, x, refs)
	if unread > 0 {
		x.note("the ages of %d terminating namespaces are not known yet; they are read bit by bit while a page is open", unread)
	}
	if n := len(oldest); n > h.options.Rows {
		if unread > 0 || x.AtLeast || n < x.Terminating {
			x.note("of the %d terminating namespaces whose age is known the %d that are so for longest are shown", n, h.options.Rows)
		} else {
			x.note("%d are terminating; the %d that are so for longest are shown", n, h.options.Rows)
		}
		oldest = oldest[:h.options.Rows]
	}
	x.Rows = make([]row, len(oldest))
	each(len(oldest), func(i int) { x.Rows[i] = h.row(ctx, x, oldest[i]) })
	x.Rows = slices.DeleteFunc(x.Rows, func(r row) bool { return r.gone })
	return x
}

func (x *index) note(format string, args ...any) {
	x.Notes = append(x.Notes, fmt.Sprintf(format, args...))
}

// ref names one terminating namespace.
type ref struct{ name, uid string }

func (h *Handler) terminating(ctx context.Context, x *index) (refs []ref) {
	err := safely(func() error {
		for e, err := range h.namespaces.Terminating(ctx, "") {
			if err != nil {
				return err
			}
			switch e.Type {
			case namespace.EventTerminating:
				if len(refs) == mostListed {
					x.AtLeast = true
					return nil
				}
				refs = append(refs, ref{e.Name, e.UID})
			case namespace.EventSynced:
				return nil
			}
		}
		return context.Cause(ctx)
	})
	if err != nil {
		x.note("not all terminating namespaces could be listed: %v", err)
		x.AtLeast = true
	}
	if x.Terminating = len(refs); err == nil && x.AtLeast {
		x.note("more than %d are terminating; what is shown is of the first by name", mostListed)
	}
	return refs
}

func (h *Handler) holds(ctx context.Context, x *index) {
	place, ok := h.namespaces.(Holds)
	if !ok {
		return
	}
	err := safely(func() error {
		for e, err := range place.Holds(ctx, "") {
			if err != nil {
				return err
			}
			if e.Type == declare.HoldsSynced || len(x.Holds) == mostListed {
				return nil
			}
			if e.Type == declare.HoldSet {
				x.Holds = append(x.Holds, held{e.Name, e.Until.UTC()})
			}
		}
		return context.Cause(ctx)
	})
	if err != nil {
		x.note("not all namespaces on hold could be listed: %v", err)
	}
	n := len(x.Holds)
	x.OnHold = &n
	slices.SortFunc(x.Holds, func(a, b held) int {
		return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.Name, b.Name))
	})
	if n > mostHolds {
		x.note("%d are on hold; the %d whose hold ends next are shown", n, mostHolds)
		x.Holds = x.Holds[:mostHolds]
	}
}

func (h *Handler) agents(ctx context.Context, x *index) {
	if h.options.Parties == nil {
		return
	}
	err := safely(func() (err error) {
		x.Agents, err = h.options.Parties(ctx)
		return err
	})
	if err != nil {
		x.note("the agents could not be listed: %v", err)
	}
	if n := len(x.Agents); n > mostAgents {
		x.note("%d agents announced themselves; the first %d by name are shown", n, mostAgents)
		x.Agents = x.Agents[:mostAgents]
	}
}

func (h *Handler) row(ctx context.Context, x *index, a aged) row {
	r := row{Name: a.name, UID: a.uid, At: x.At, Since: a.since.UTC()}
	d, err := h.explain(ctx, a.name)
	switch {
	case err != nil:
		r.Error = err.Error()
		return r
	case d.Phase != phase.Terminating:
		r.gone = true
		return r
	}
	r.At, r.UID, r.Since, r.Stage, r.Progress, r.Holders, r.Causes = d.At.UTC(), d.UID, d.Since.UTC(), d.Stage, d.Progress, d.Holders, len(d.Causes)
	if old := oldestCount(&d); old != nil {
		r.Counted = old.Counted
	}
	if len(d.Causes) > 0 {
		r.Cause = &d.Causes[0]
	}
	return r
}

// OldCount is Counted for a template; nil: there is none.
func (r row) OldCount() *oldCount {
	if r.Counted.IsZero() {
		return nil
	}
	return &oldCount{r.Counted, r.At}
}

func (h *Handler) explain(ctx context.Context, name string) (d explain.Diagnosis, err error) {
	err = safely(func() (err error) {
		d, err = h.explainer.Explain(ctx, name)
		return err
	})
	return d, err
}

func (x *index) template() string { return "index" }
func (x *index) title() string    { return "" }
func (x *index) status() int      { return http.StatusOK }

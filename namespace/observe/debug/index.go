package debug

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The cost of one index is bounded, however many namespaces there are.
const (
	maxListed  = 10_000 // terminating namespaces that are listed
	maxAged    = 1_000  // of those, how many are read for an unknown age
	maxHolds   = 100    // namespaces on hold that are shown
	maxParties = 100    // parties that are shown

	countInterval = 15 * time.Second // of open pages: a store may have to scan all namespaces
)

// index is the first page.
type index struct {
	At          time.Time       `json:"at"`
	Active      *int            `json:"active,omitempty"` // nil: not counted
	Counted     time.Time       `json:"counted,omitzero"` // when
	Terminating int             `json:"terminating"`
	AtLeast     bool            `json:"atLeast,omitempty"` // there are more than Terminating
	Rows        []row           `json:"namespaces"`        // terminating ones, the oldest first
	OnHold      *int            `json:"onHold,omitempty"`  // nil: not known
	Holds       []held          `json:"holds,omitempty"`   // those that end next
	Parties     []parties.Party `json:"parties,omitempty"`
	Notes       []string        `json:"notes,omitempty"` // the missing parts, and why
}

// row is one terminating namespace.
type row struct {
	Name     string            `json:"name"`
	UID      string            `json:"uid"`
	At       time.Time         `json:"at"` // of the diagnosis
	Since    time.Time         `json:"since"`
	Stage    phase.Stage       `json:"stage,omitempty"`
	Progress *explain.Progress `json:"progress,omitempty"`
	Counted  time.Time         `json:"counted,omitzero"` // the oldest outdated count of remaining objects
	Cause    *explain.Cause    `json:"cause,omitempty"`  // the first
	Causes   int               `json:"causes"`
	Holders  []explain.Holder  `json:"holders,omitempty"`
	Error    string            `json:"error,omitempty"` // why there is no diagnosis
	gone     bool
}

// held is one namespace on hold.
type held struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
}

// index gathers the index, with a count no older than maxCountAge. Its notes list the parts
// that do not answer.
func (h *Handler) index(ctx context.Context, maxCountAge time.Duration) *index {
	x := &index{At: time.Now().UTC(), Rows: []row{}}
	refs := h.terminating(ctx, x)
	h.count(ctx, x, maxCountAge)
	h.holds(ctx, x)
	h.parties(ctx, x)
	oldest, unread := h.oldest(ctx, x, refs)
	if unread > 0 {
		x.note("the ages of %d terminating namespaces are not known yet; each update of an open page reads some of them", unread)
	}
	if n := len(oldest); n > h.options.Rows {
		if unread > 0 || x.AtLeast || n < x.Terminating {
			x.note("showing the oldest %d of the %d terminating namespaces with a known age", h.options.Rows, n)
		} else {
			x.note("showing the oldest %d of %d terminating namespaces", h.options.Rows, n)
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

func (h *Handler) terminating(ctx context.Context, x *index) (refs []namespace.Ref) {
	err := safely(func() error {
		for e, err := range h.namespaces.Terminating(ctx, "") {
			if err != nil {
				return err
			}
			switch e.Type {
			case namespace.EventPresent:
				if len(refs) == maxListed {
					x.AtLeast = true
					return nil
				}
				refs = append(refs, namespace.Ref{Name: e.Name, UID: e.UID})
			case namespace.EventSynced:
				return nil
			}
		}
		return context.Cause(ctx)
	})
	x.Terminating = len(refs)
	switch {
	case err != nil:
		x.note("the list of terminating namespaces is incomplete: %v", err)
		x.AtLeast = true
	case x.AtLeast:
		x.note("more than %d namespaces are terminating; the index only covers the first by name", maxListed)
	}
	return refs
}

// counts is the last count of namespaces.
type counts struct {
	mu                  sync.Mutex
	active, terminating int
	at                  time.Time
}

// count counts the namespaces if the host can.
func (h *Handler) count(ctx context.Context, x *index, maxAge time.Duration) {
	counter, ok := h.namespaces.(Counter)
	if !ok {
		return
	}
	c := &h.counts
	c.mu.Lock()
	active, terminating, at := c.active, c.terminating, c.at
	c.mu.Unlock()
	if x.At.Sub(at) >= maxAge {
		err := safely(func() (err error) {
			active, terminating, err = counter.Count(ctx)
			return err
		})
		if err != nil {
			x.note("the namespaces could not be counted: %v", err)
			return
		}
		at = x.At
		c.mu.Lock()
		if at.After(c.at) {
			c.active, c.terminating, c.at = active, terminating, at
		}
		c.mu.Unlock()
	}
	x.Active, x.Counted = &active, at
	if x.AtLeast { // otherwise the list is newer, and agrees with the table
		x.Terminating, x.AtLeast = max(terminating, x.Terminating), false
	}
}

func (h *Handler) holds(ctx context.Context, x *index) {
	host, ok := h.namespaces.(Holds)
	if !ok {
		return
	}
	err := safely(func() error {
		for e, err := range host.Holds(ctx, "") {
			if err != nil {
				return err
			}
			if e.Type == namespace.EventSynced || len(x.Holds) == maxListed {
				return nil
			}
			if e.Type == namespace.EventPresent {
				x.Holds = append(x.Holds, held{e.Name, e.Until.UTC()})
			}
		}
		return context.Cause(ctx)
	})
	if err != nil {
		x.note("the list of namespaces on hold is incomplete: %v", err)
	}
	n := len(x.Holds)
	x.OnHold = &n
	slices.SortFunc(x.Holds, func(a, b held) int {
		return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.Name, b.Name))
	})
	if n > maxHolds {
		x.note("showing the next %d of %d holds", maxHolds, n)
		x.Holds = x.Holds[:maxHolds]
	}
}

func (h *Handler) parties(ctx context.Context, x *index) {
	if h.options.Parties == nil {
		return
	}
	err := safely(func() (err error) {
		x.Parties, err = h.options.Parties(ctx)
		return err
	})
	if err != nil {
		x.note("the parties could not be listed: %v", err)
	}
	if n := len(x.Parties); n > maxParties {
		x.note("showing the first %d of %d parties by name", maxParties, n)
		x.Parties = x.Parties[:maxParties]
	}
}

func (h *Handler) row(ctx context.Context, x *index, a aged) row {
	r := row{Name: a.Name, UID: a.UID, At: x.At, Since: a.since.UTC()}
	explainer := h.explainer.Explain
	if s, ok := h.explainer.(Summarizer); ok {
		explainer = s.Summarize
	}
	d, err := diagnose(ctx, explainer, a.Name)
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

// OldCount is Counted for a template; nil: none.
func (r row) OldCount() *oldCount {
	if r.Counted.IsZero() {
		return nil
	}
	return &oldCount{r.Counted, r.At}
}

// diagnose explains a namespace with one of the methods of an [Explainer].
func diagnose(ctx context.Context, explainer func(context.Context, string) (explain.Diagnosis, error), name string) (d explain.Diagnosis, err error) {
	err = safely(func() (err error) {
		d, err = explainer(ctx, name)
		return err
	})
	return d, err
}

func (x *index) template() string { return "index" }
func (x *index) title() string    { return "" }
func (x *index) status() int      { return http.StatusOK }

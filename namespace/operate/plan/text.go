package plan

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Text returns the plan for a terminal: the outcome, facts about the namespace, a table of the
// types with objects, and the sources that did not answer. It escapes characters that could
// move the cursor or break a line.
func (p Plan) Text() string {
	var b strings.Builder
	p.head(&b)
	p.facts(&b)
	p.table(&b)
	if !p.Complete() {
		fmt.Fprintf(&b, "\nincomplete: %s did not answer\n", show.Count(len(p.Failures), "source"))
		for _, f := range p.Failures {
			source := cmp.Or(f.Source, "the inspection") + ": "
			show.Wrap(&b, "  ", "    ", source+strings.TrimPrefix(f.Text, source))
		}
	}
	return b.String()
}

func (p Plan) head(b *strings.Builder) {
	with := 0
	for _, t := range p.Types {
		if t.Objects > 0 {
			with++
		}
	}
	content := fmt.Sprintf("%s of %s", show.Count(p.Objects(), "object"), show.Count(with, "type"))
	switch {
	case p.Phase == phase.Terminating:
		fmt.Fprintf(b, "namespace %s is being deleted; %s left\n", show.Clean(p.Name), content)
	case p.Refusal != "":
		fmt.Fprintf(b, "namespace %s cannot be deleted now; it has %s\n", show.Clean(p.Name), content)
	case p.Delete == Nothing:
		fmt.Fprintf(b, "deleting namespace %s changes nothing while it is on hold; it has %s\n", show.Clean(p.Name), content)
	case p.Delete == Holds:
		fmt.Fprintf(b, "deleting namespace %s would put it on hold first, and then delete %s\n", show.Clean(p.Name), content)
	default:
		fmt.Fprintf(b, "deleting namespace %s would delete %s\n", show.Clean(p.Name), content)
	}
}

func (p Plan) facts(b *strings.Builder) {
	fact := func(name, text string) {
		show.Wrap(b, fmt.Sprintf("  %-13s", name+":"), strings.Repeat(" ", 15), text)
	}
	if p.Refusal != "" {
		fact("refused", p.Refusal)
	}
	for _, one := range p.Protections {
		fact("protected", fmt.Sprintf("%s (owner %s: %s)", one.Name, one.Owner, one.Reason))
	}
	if p.Hold != nil {
		fact("on hold", "until "+moment(p.Hold.Until)+p.waits())
	}
	if p.Grace > 0 {
		until := ""
		if !p.Until.IsZero() {
			until = ", until " + moment(p.Until)
		}
		fact("grace", fmt.Sprintf("DELETE puts it on hold for %v%s", p.Grace, until))
	}
	if p.Unguarded {
		fact("unguarded", "the host ignores the protections, graces and holds in the annotations")
	}
	if len(p.Finalizers) > 0 {
		fact("finalizers", list(p.Finalizers))
	}
	if len(p.MetadataFinalizers) > 0 {
		fact("in metadata", list(p.MetadataFinalizers))
	}
}

// waits returns the effect of the hold on DELETE.
func (p Plan) waits() string {
	switch {
	case p.Hold.Due(p.At):
		return ", which is over"
	case p.Delete == Nothing:
		return "; then it is deleted"
	case p.Delete == Terminates:
		return "; DELETE does not wait for that"
	}
	return ""
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// table lists the types with objects.
func (p Plan) table(b *strings.Builder) {
	empty := 0
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, t := range p.Types {
		if t.Objects == 0 {
			empty++
			continue
		}
		if t.Resource == p.Types[0].Resource {
			fmt.Fprint(w, "\nTYPE\tOBJECTS\tHELD BY\tSAMPLE\n")
		}
		more := ""
		if t.More {
			more = "+"
		}
		held := make([]string, len(t.HeldBy))
		for i, h := range t.HeldBy {
			held[i] = fmt.Sprintf("%s (%d)", show.Clean(h.Finalizer), h.Objects)
		}
		if len(held) == 0 {
			held = []string{"-"}
		}
		sample := make([]string, len(t.Sample))
		for i, name := range t.Sample {
			sample[i] = show.Clean(name)
		}
		if len(sample) > 0 && len(sample) < t.Objects {
			sample = append(sample, "...")
		}
		fmt.Fprintf(w, "%s\t%d%s\t%s\t%s\n", show.Clean(t.Resource), t.Objects, more, strings.Join(held, ", "), strings.Join(sample, ", "))
	}
	_ = w.Flush() // a strings.Builder never fails
	if empty > 0 {
		fmt.Fprintf(b, "\n%s without objects\n", show.Count(empty, "type"))
	}
}

func list(names []finalizer.Name) string {
	texts := make([]string, len(names))
	for i, f := range names {
		texts[i] = string(f)
	}
	return strings.Join(texts, ", ")
}

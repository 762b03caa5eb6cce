package plan

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/phase"
)

// Text returns the plan for a terminal: some lines about the namespace, a table of the
// types that have objects, and what is not known. Names that could move the cursor or
// break a line are quoted.
func (p Plan) Text() string {
	var b strings.Builder
	p.head(&b)
	p.facts(&b)
	p.table(&b)
	if !p.Complete() {
		fmt.Fprintf(&b, "\nnot complete, %s did not answer:\n", count(len(p.Failures), "source"))
		for _, f := range p.Failures {
			source := f.Source
			if source == "" {
				source = "the look"
			}
			fmt.Fprintf(&b, "  %s: %s\n", plain(source), plain(f.Text))
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
	what := fmt.Sprintf("%s of %s", count(p.Objects(), "object"), count(with, "type"))
	switch {
	case p.Phase == phase.Terminating:
		fmt.Fprintf(b, "namespace %s is being deleted, %s left\n", plain(p.Name), what)
	case p.Refusal != "":
		fmt.Fprintf(b, "namespace %s cannot be deleted now; it has %s\n", plain(p.Name), what)
	default:
		fmt.Fprintf(b, "deleting namespace %s would delete %s\n", plain(p.Name), what)
	}
}

func (p Plan) facts(b *strings.Builder) {
	if p.Refusal != "" {
		fmt.Fprintf(b, "  refused:     %s\n", plain(p.Refusal))
	}
	for _, one := range p.Protections {
		fmt.Fprintf(b, "  protected:   %s (owner %s: %s)\n", plain(one.Name), plain(one.Owner), plain(one.Reason))
	}
	if p.Hold != nil {
		fmt.Fprintf(b, "  on hold:     until %s\n", p.Hold.Until.UTC().Format(time.RFC3339))
	}
	if p.Grace > 0 {
		fmt.Fprintf(b, "  grace:       it would be on hold for %v first\n", p.Grace)
	}
	if len(p.Finalizers) > 0 {
		fmt.Fprintf(b, "  finalizers:  %s\n", list(p.Finalizers))
	}
	if len(p.Own) > 0 {
		fmt.Fprintf(b, "  and its own: %s\n", list(p.Own))
	}
}

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
			held[i] = fmt.Sprintf("%s (%d)", plain(h.Finalizer), h.Objects)
		}
		if len(held) == 0 {
			held = []string{"-"}
		}
		sample := make([]string, len(t.Sample))
		for i, name := range t.Sample {
			sample[i] = plain(name)
		}
		if len(sample) > 0 && len(sample) < t.Objects {
			sample = append(sample, "...")
		}
		fmt.Fprintf(w, "%s\t%d%s\t%s\t%s\n", plain(t.Resource), t.Objects, more, strings.Join(held, ", "), strings.Join(sample, ", "))
	}
	_ = w.Flush() // a builder takes everything
	if empty > 0 {
		fmt.Fprintf(b, "\n%s without objects\n", count(empty, "type"))
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func list(names []finalizer.Name) string {
	texts := make([]string, len(names))
	for i, f := range names {
		texts[i] = plain(string(f))
	}
	return strings.Join(texts, ", ")
}

// plain returns s, quoted if it has what a terminal would not print as it is.
func plain(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

package debug

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// writeText writes the index as a table.
func (x *index) writeText(w io.Writer) error {
	var b strings.Builder
	if x.Active != nil {
		fmt.Fprintf(&b, "%d active, ", *x.Active)
	}
	if x.AtLeast {
		b.WriteString("at least ")
	}
	fmt.Fprintf(&b, "%d terminating", x.Terminating)
	if x.OnHold != nil {
		fmt.Fprintf(&b, ", %d on hold", *x.OnHold)
	}
	fmt.Fprintf(&b, " at %s\n", show.Date(x.At))
	for _, note := range x.Notes {
		fmt.Fprintf(&b, "Note: %s\n", cell(note))
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(x.Rows) > 0 {
		fmt.Fprintf(t, "\nNAMESPACE\tAGE\tSTAGE\tDONE\tWHY\n")
	}
	for _, r := range x.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", cell(r.Name), age(r.Since, r.At), orDash(stageText(r.Stage)), r.done(), cell(r.Why()))
	}
	if len(x.Holds) > 0 {
		fmt.Fprintf(t, "\nON HOLD\tUNTIL\n")
	}
	for _, one := range x.Holds {
		fmt.Fprintf(t, "%s\t%s\n", cell(one.Name), show.Date(one.Until))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Why is the summary of the first cause.
func (r row) Why() string {
	switch {
	case r.Error != "":
		return "it cannot be explained: " + r.Error
	case r.Cause != nil:
		return r.Cause.Summary
	}
	return "the cause is not known"
}

// done is the progress in percent, and its age if a count is outdated.
func (r row) done() string {
	p := r.Progress
	if p == nil || !p.Known {
		return "-"
	}
	text := fmt.Sprintf("%d%%", p.Percent)
	if p.AtLeast {
		text = "<=" + text
	}
	if !r.Counted.IsZero() {
		text += fmt.Sprintf(" (%s ago)", age(r.Counted, r.At))
	}
	return text
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cell returns s on one line.
func cell(s string) string { return strings.ReplaceAll(visible(s), "\n", " ") }

// writeText writes the diagnosis as text, and the audit records.
func (n *details) writeText(w io.Writer) error {
	var b strings.Builder
	b.WriteString(n.Diagnosis.Text())
	for _, note := range n.Notes {
		fmt.Fprintf(&b, "Note: %s\n", cell(note))
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(n.Records) > 0 {
		fmt.Fprintf(t, "\nTIME\tACTION\tBY\tREASON\tDETAIL\n")
	}
	for _, r := range n.Records {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", show.Date(r.Time), cell(string(r.Action)), orDash(cell(r.By)), orDash(cell(r.Reason)), orDash(cell(recordText(r))))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// recordText lists the changes and the detail of a record.
func recordText(r audit.Record) string {
	var all []string
	for _, c := range r.Changes {
		what := "changed "
		switch {
		case c.Old == "":
			what = "set "
		case c.New == "":
			what = "removed "
		}
		all = append(all, what+c.Key)
	}
	if r.Detail != "" {
		all = append(all, r.Detail)
	}
	return strings.Join(all, ", ")
}

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
)

// show plays an exhibit in a world and tells what happens. Settle is called after each
// step, so that everything comes to rest; nil: nothing is awaited.
type show struct {
	world  *world
	tell   *teller
	settle func()
	seen   []explain.Diagnosis // what was explained so far
}

// play takes steps.
func (s *show) play(steps []step) error {
	for _, next := range steps {
		if err := s.take(next); err != nil {
			return fmt.Errorf("line %d: %s %s: %w", next.Line, next.Verb, strings.Join(next.Words, " "), err)
		}
		if s.settle != nil {
			s.settle()
		}
	}
	return nil
}

func (s *show) take(next step) error {
	switch next.Verb {
	case tell:
		if s.tell.quiet {
			s.tell.space()
		}
		s.tell.paragraph("", next.Words)
		return nil
	case remedy:
		return nil
	case refused:
		s.tell.asked(next.Words)
		err := s.take(step{Line: next.Line, Verb: next.Words[0], Words: next.Words[1:]})
		if err == nil {
			return errors.New("it was not refused")
		}
		s.tell.refusal(err)
		return nil
	case explained:
		d, err := s.world.diagnose(s.world.ctx, next.Words[0])
		if err == nil {
			s.seen = append(s.seen, d)
			s.tell.asked([]string{explained, next.Words[0]})
			s.tell.diagnosis(d.Text())
		}
		return err
	}
	if next.Verb == planned {
		text, err := s.world.plan(next.Words[0])
		if err == nil {
			s.tell.asked([]string{planned, next.Words[0]})
			s.tell.text(text)
		}
		return err
	}
	if err := verbs[next.Verb].do(s.world, next.Words); err != nil {
		return err
	}
	if end := map[string]string{"gone": "is gone.", "active": "is Active."}[next.Verb]; end != "" {
		s.tell.paragraph("", []string{next.Words[0], end})
	}
	return nil
}

// teller writes what is told, in lines that fit a terminal.
type teller struct {
	w    io.Writer
	full bool // all that a diagnosis says, not only why the namespace is there

	quiet bool // nothing of what the library says

	blank bool // the last line is
}

const width = 88 // of a line, in columns

func (t *teller) title(number, of int, e exhibit) {
	head := fmt.Sprintf("── %d/%d %s ", number, of, e.Name)
	fmt.Fprintf(t.w, "%s%s\n", head, strings.Repeat("─", max(0, width-len([]rune(head)))))
	t.paragraph("", []string{e.Title + "."})
	t.paragraph("", strings.Fields(fmt.Sprintf("%s [%s]", e.Pain, e.Seen)))
	t.space()
}

// paragraph writes words, broken into lines that begin with indent.
func (t *teller) paragraph(indent string, words []string) {
	column := 0
	for _, word := range words {
		n := len([]rune(word))
		if column > 0 && column+1+n > width {
			fmt.Fprintln(t.w)
			column = 0
		}
		before := " "
		if column == 0 {
			before = indent
		}
		fmt.Fprint(t.w, before, word)
		column += len(before) + n
	}
	t.blank = false
	fmt.Fprintln(t.w)
}

// space writes a blank line, if there is none.
func (t *teller) space() {
	if !t.blank {
		fmt.Fprintln(t.w)
	}
	t.blank = true
}

// asked writes what was asked of the library.
func (t *teller) asked(words []string) {
	if t.quiet {
		return
	}
	t.space()
	fmt.Fprintf(t.w, "  $ %s\n", strings.Join(words, " "))
}

func (t *teller) refusal(err error) {
	if t.quiet {
		return
	}
	t.paragraph("  ", strings.Fields("refused: "+err.Error()))
	t.space()
}

// diagnosis writes what is the matter with a namespace, and why.
func (t *teller) diagnosis(text string) {
	if parts := strings.Split(text, "\n\n"); !t.full && len(parts) > 1 {
		text = parts[0] + "\n" + parts[1]
	}
	t.text(text)
}

// text writes lines as they are.
func (t *teller) text(text string) {
	if t.quiet {
		return
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Fprintln(t.w, strings.TrimRight("  "+line, " \n"))
	}
	t.blank = false
	t.space()
}

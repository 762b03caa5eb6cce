package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
)

// player plays a scenario in a world and writes the output. It calls settle after each step.
type player struct {
	world  *world
	tell   *teller
	settle func()
	seen   []explain.Diagnosis // explanations so far
}

// play takes the steps in order.
func (s *player) play(steps []step) error {
	for _, next := range steps {
		if err := s.take(next); err != nil {
			return fmt.Errorf("line %d: %s %s: %w", next.Line, next.Verb, strings.Join(next.Words, " "), err)
		}
		s.settle()
	}
	return nil
}

func (s *player) take(next step) error {
	switch next.Verb {
	case tell:
		s.tell.paragraph("", next.Words)
		return nil
	case remedy:
		return nil
	case refused:
		s.tell.asked(next.Words)
		err := s.take(step{Line: next.Line, Verb: next.Words[0], Words: next.Words[1:]})
		if err == nil {
			return errors.New("the step was not refused")
		}
		s.tell.refusal(err)
		return nil
	case explained:
		d, err := s.world.diagnose(s.world.ctx, next.Words[0])
		if err == nil {
			s.seen = append(s.seen, d)
			s.tell.asked([]string{explained, next.Words[0]})
			s.tell.text(d.Text())
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

// teller writes text in lines that fit a terminal.
type teller struct {
	w io.Writer

	blank bool // the last line is blank
}

const width = 88 // of a line, in columns

func (t *teller) title(number, of int, e scenario) {
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

// space writes a blank line unless the last line is blank.
func (t *teller) space() {
	if !t.blank {
		fmt.Fprintln(t.w)
	}
	t.blank = true
}

// asked writes a command.
func (t *teller) asked(words []string) {
	t.space()
	fmt.Fprintf(t.w, "  $ %s\n", strings.Join(words, " "))
}

func (t *teller) refusal(err error) {
	t.paragraph("  ", strings.Fields("refused: "+err.Error()))
	t.space()
}

// text writes the lines of text unwrapped, each indented.
func (t *teller) text(text string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Fprintln(t.w, strings.TrimRight("  "+line, " \n"))
	}
	t.blank = false
	t.space()
}

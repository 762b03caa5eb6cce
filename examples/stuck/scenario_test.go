package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
)

// scenario is one script of testdata/scenarios. The README there documents the language.
type scenario struct {
	Name  string
	Title string
	Pain  string // the problem of users
	Seen  string // public issues
	Cause explain.Kind
	Steps []step
}

// step is one line of a script, or one comment.
type step struct {
	Line  int
	Verb  string // "tell" for a comment
	Words []string
}

// Verbs that write output.
const (
	tell      = "tell"
	remedy    = "remedy"
	refused   = "refused"
	explained = "explain"
	planned   = "plan"
)

// scenarios returns all scenarios, in the order of their files.
func scenarios() ([]scenario, error) {
	names, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil {
		return nil, err
	}
	var all []scenario
	for _, name := range names { // sorted by number
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		_, short, _ := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".txt"), "-")
		e, err := parse(short, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", name, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// parse reads a script.
func parse(name, text string) (scenario, error) {
	e := scenario{Name: name}
	head := map[string]*string{"title": &e.Title, "pain": &e.Pain, "seen": &e.Seen, "cause": (*string)(&e.Cause)}
	comment := false // reports whether the previous line is a comment
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		paragraph := strings.HasPrefix(line, "#")
		key, value, _ := strings.Cut(line, ":")
		field, isHead := head[key]
		switch {
		case line == "":
		case isHead && len(e.Steps) == 0:
			*field = strings.TrimSpace(value)
		case paragraph && comment:
			last := &e.Steps[len(e.Steps)-1]
			last.Words = append(last.Words, strings.Fields(line[1:])...)
		case paragraph:
			e.Steps = append(e.Steps, step{Line: i + 1, Verb: tell, Words: strings.Fields(line[1:])})
		default:
			words, err := split(line)
			if err != nil {
				return e, fmt.Errorf("%d: %w", i+1, err)
			}
			e.Steps = append(e.Steps, step{Line: i + 1, Verb: words[0], Words: words[1:]})
		}
		comment = paragraph
	}
	return e, e.check()
}

// remedy returns the index of the step that begins the remedy.
func (e scenario) remedy() int {
	return slices.IndexFunc(e.Steps, func(s step) bool { return s.Verb == remedy })
}

// namespace returns the stuck namespace.
func (e scenario) namespace() string {
	for _, s := range e.Steps {
		if s.Verb == explained {
			return s.Words[0]
		}
	}
	return ""
}

// check rejects an incomplete scenario.
func (e scenario) check() error {
	for key, value := range map[string]string{"title": e.Title, "pain": e.Pain, "seen": e.Seen, "cause": string(e.Cause)} {
		if value == "" {
			return fmt.Errorf("1: it has no %s", key)
		}
	}
	for _, s := range e.Steps {
		known, ok := verbs[s.Verb]
		if !ok && s.Verb != tell && s.Verb != remedy {
			return fmt.Errorf("%d: there is no step %q", s.Line, s.Verb)
		}
		if ok && (len(s.Words) < known.least || known.most >= 0 && len(s.Words) > known.most) {
			return fmt.Errorf("%d: %s has %d words: %q", s.Line, s.Verb, len(s.Words), s.Words)
		}
	}
	first := slices.IndexFunc(e.Steps, func(s step) bool { return s.Verb == explained })
	ends := len(e.Steps) > 0 && slices.Contains([]string{"gone", "active", "left", "explain"}, e.Steps[len(e.Steps)-1].Verb)
	if first < 0 || e.remedy() < first || !ends {
		return fmt.Errorf("1: it must explain, remedy, and end with what has become of it")
	}
	return nil
}

// split splits a line into words, which may be quoted as in Go.
func split(line string) ([]string, error) {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("a quotation does not end: %s", line)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		words, line = append(words, word), line[len(quoted):]
	}
	return words, nil
}

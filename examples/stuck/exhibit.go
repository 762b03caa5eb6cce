package main

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
)

//go:embed exhibits/*.txt
var files embed.FS

// exhibit is one script of exhibits/; the README there says what is in it.
type exhibit struct {
	Name  string
	Title string
	Pain  string // what people suffer from
	Seen  string // where, in public
	Cause explain.Kind
	Steps []step
}

// step is one line of a script, or the lines of one paragraph that is told.
type step struct {
	Line  int
	Verb  string // "tell" for what is told
	Words []string
}

// Verbs of steps that show something rather than change the world.
const (
	tell      = "tell"
	remedy    = "remedy"
	refused   = "refused"
	explained = "explain"
	planned   = "plan"
)

// exhibits returns all of them in the order in which they are shown.
func exhibits() ([]exhibit, error) {
	names, err := fs.Glob(files, "exhibits/*.txt")
	if err != nil {
		return nil, err
	}
	var all []exhibit
	for _, name := range names { // sorted: they begin with a number
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		_, short, _ := strings.Cut(strings.TrimSuffix(path.Base(name), ".txt"), "-")
		e, err := parse(short, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", name, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// parse reads a script.
func parse(name, text string) (exhibit, error) {
	e := exhibit{Name: name}
	head := map[string]*string{"title": &e.Title, "pain": &e.Pain, "seen": &e.Seen, "cause": (*string)(&e.Cause)}
	told := false // the line before was of a paragraph
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		paragraph := strings.HasPrefix(line, "#")
		key, value, _ := strings.Cut(line, ":")
		field, isHead := head[key]
		switch {
		case line == "":
		case isHead && len(e.Steps) == 0:
			*field = strings.TrimSpace(value)
		case paragraph && told:
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
		told = paragraph
	}
	return e, e.check()
}

// remedy is where the remedy begins.
func (e exhibit) remedy() int {
	return slices.IndexFunc(e.Steps, func(s step) bool { return s.Verb == remedy })
}

// namespace is the one that is stuck.
func (e exhibit) namespace() string {
	for _, s := range e.Steps {
		if s.Verb == explained {
			return s.Words[0]
		}
	}
	return ""
}

// check refuses an exhibit that could not be shown, or does not end well.
func (e exhibit) check() error {
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

// split cuts a line into words; those in double quotes are as in Go.
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

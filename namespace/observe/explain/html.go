package explain

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/observe/internal/show"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var style string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean": show.Clean, "number": show.Number, "human": show.Duration, "names": names, "plural": plural,
	"kind": func(k Kind) string { return show.Clean(string(k)) },
}).Parse(pageHTML))

// view is the data of the page: the diagnosis and the wording of its text.
type view struct {
	Diagnosis
	Style    template.CSS
	Headline string
	Lines    []string
	NextPass string
}

// HTML writes the diagnosis as a page without scripts or assets. Strings from outside are
// escaped as in [Diagnosis.Text]. Its one inline style is allowed by a
// Content-Security-Policy that contains [StyleSource]. HTML fails only if w fails.
func (d Diagnosis) HTML(w io.Writer) error {
	v := view{Diagnosis: d, Style: template.CSS(style), Headline: d.headline(), Lines: d.sublines(), NextPass: d.next()}
	var b bytes.Buffer
	err := page.Execute(&b, v)
	if err == nil {
		_, err = w.Write(b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write the page of namespace %q: %w", d.Name, err)
	}
	return nil
}

// StyleSource returns the hash of the style of the page, for the style-src of a
// Content-Security-Policy.
func StyleSource() string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// When returns the age and the detail of a cause.
func (v view) When(c Cause) string { return c.when(v.At) }

// Owner returns the state of the owner of a finalizer.
func (v view) Owner(h Holder) string { return h.state(v.At) }

// Left returns the remaining content of a type.
func (v view) Left(o Objects) string { return o.state(v.At) }

// Clock returns a time.
func (v view) Clock(t time.Time) string { return clock(t, v.At) }

// Age returns the age of a time.
func (v view) Age(t time.Time) string { return show.Duration(v.At.Sub(t)) }

// Moved returns the progress.
func (v view) Moved() string { return v.progress() }

// Latest returns the passes, the latest first.
func (v view) Latest() []Pass {
	list := slices.Clone(v.Passes)
	slices.Reverse(list)
	return list
}

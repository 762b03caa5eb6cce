package explain

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var style string

// page is parsed when the package is loaded; a test executes all of it.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean": clean, "number": number, "human": human, "names": names, "plural": plural,
	"kind": func(k Kind) string { return clean(string(k)) },
}).Parse(pageHTML))

// view is what the page shows: the diagnosis, and the words that its text says it with.
type view struct {
	Diagnosis
	Style    template.CSS
	Headline string
	Lines    []string
	NextPass string
}

// HTML writes the diagnosis as a page of its own: no script, no assets, everything from
// outside escaped and made safe as in [Diagnosis.Text]. Its only style is inline; a
// Content-Security-Policy allows it with the expression that [StyleSource] returns. The
// error is that of w.
func (d Diagnosis) HTML(w io.Writer) error {
	v := view{Diagnosis: d, Style: template.CSS(style), Headline: d.headline(), Lines: d.sublines(), NextPass: d.next()}
	var b bytes.Buffer // so that a page is written as a whole, or not at all
	err := page.Execute(&b, v)
	if err == nil {
		_, err = w.Write(b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write the page of namespace %q: %w", d.Name, err)
	}
	return nil
}

// StyleSource returns the source expression that allows the style of the page, for the
// style-src of a Content-Security-Policy: its hash.
func StyleSource() string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// When says since when a cause is there, and what else is known of it.
func (v view) When(c Cause) string { return c.when(v.At) }

// Owner says what is known of the owner of a finalizer.
func (v view) Owner(h Holder) string { return h.state(v.At) }

// Left says what is left of a type.
func (v view) Left(o Objects) string { return o.state(v.At) }

// Clock says a moment.
func (v view) Clock(t time.Time) string { return clock(t, v.At) }

// Age says how long ago a moment was.
func (v view) Age(t time.Time) string { return human(v.At.Sub(t)) }

// Moved says how far the deletion has come.
func (v view) Moved() string { return v.progress() }

// Latest returns the passes, the latest first.
func (v view) Latest() []Pass {
	list := make([]Pass, 0, len(v.Passes))
	for i := len(v.Passes) - 1; i >= 0; i-- {
		list = append(list, v.Passes[i])
	}
	return list
}

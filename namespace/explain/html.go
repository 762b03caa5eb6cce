package explain

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
)

// HTML writes the diagnosis as a page of its own: no script, no assets, everything from
// outside escaped. Its only style is inline; a Content-Security-Policy allows it with
// the source expression that [StyleSource] returns.
func (d Diagnosis) HTML(w io.Writer) error {
	if err := page.Execute(w, map[string]any{"Title": clean(d.headline()), "Text": d.Text(), "Style": template.CSS(style)}); err != nil {
		return fmt.Errorf("write the page of namespace %q: %w", d.Name, err)
	}
	return nil
}

const style = `body{font:16px/1.5 monospace;margin:1rem auto;max-width:60rem;padding:0 1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere}`

var page = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{{.Title}}</title><style>{{.Style}}</style></head><body><pre>{{.Text}}</pre></body></html>
`))

// StyleSource returns the source expression that allows the style of the page, for the
// style-src of a Content-Security-Policy: its hash.
func StyleSource() string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

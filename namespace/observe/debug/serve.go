package debug

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

//go:embed assets
var assets embed.FS

const (
	// mostGathering is how many pages are gathered at once for requests of their own.
	mostGathering = 4
	// longestName is how long a name may be that is asked about, in bytes. No namespace
	// has a longer one.
	longestName = 1024
)

// view is what is shown on one page.
type view interface {
	status() int               // of the answer over HTTP
	writeText(io.Writer) error // for a terminal
	template() string          // the template of the page's content
	title() string
}

// page is a view and what is around it.
type page struct {
	Title   string // of the service
	Heading string
	Kind    string // the template of the view
	View    view
	Nonce   string
	Style   template.CSS
	Script  template.JS
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if err := h.guard.Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "these pages only answer GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, "the query of the request cannot be read", http.StatusBadRequest)
		return
	}
	name := query.Get("namespace")
	if len(name) > longestName || !utf8.ValidString(name) {
		http.Error(w, "no namespace can have such a name", http.StatusNotFound)
		return
	}
	switch format := query.Get("format"); format {
	case "", "html", "json", "text":
		h.serveView(w, r, name, format)
	case "events":
		h.hub.serve(w, r, name)
	default:
		http.Error(w, "the format must be html, json, text or events", http.StatusBadRequest)
	}
}

func (h *Handler) serveView(w http.ResponseWriter, r *http.Request, name, format string) {
	if !h.enter(r.Context()) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are being gathered already", http.StatusServiceUnavailable)
		return
	}
	defer func() { <-h.gathering }()
	v := h.view(r.Context(), name, 0)
	if r.Context().Err() != nil {
		return // nobody waits for it
	}
	var body bytes.Buffer
	var kind string
	var err error
	switch format {
	case "json":
		kind = "application/json"
		encoder := json.NewEncoder(&body)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(v)
	case "text":
		kind = "text/plain; charset=utf-8"
		err = v.writeText(&body)
	default:
		kind = "text/html; charset=utf-8"
		nonce := newNonce()
		w.Header().Set("Content-Security-Policy", policy(nonce))
		err = h.writePage(&body, v, nonce)
	}
	if err != nil {
		http.Error(w, "the page could not be written: "+visible(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(v.status())
	if r.Method != http.MethodHead {
		_, _ = body.WriteTo(w) // the client went away
	}
}

// enter waits, no longer than patience lasts, until one more page may be gathered.
func (h *Handler) enter(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, h.options.Patience)
	defer cancel()
	select {
	case h.gathering <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// view gathers the index, with a count that is oldestCount old at most, or the page of
// a namespace.
func (h *Handler) view(ctx context.Context, name string, oldestCount time.Duration) view {
	ctx, cancel := context.WithTimeout(ctx, h.options.Patience)
	defer cancel()
	if name == "" {
		return h.index(ctx, oldestCount)
	}
	return h.namespace(ctx, name)
}

func (h *Handler) writePage(w io.Writer, v view, nonce string) error {
	style, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return err
	}
	script, err := assets.ReadFile("assets/live.js")
	if err != nil {
		return err
	}
	return h.pages.ExecuteTemplate(w, "page", page{
		Title: h.options.Title, Heading: v.title(), Kind: v.template(), View: v, Nonce: nonce,
		Style: template.CSS(style), Script: template.JS(script),
	})
}

// fragment gathers and renders what open pages of a topic are brought up to date with.
// A topic is the name of a namespace, or empty for the index.
func (h *Handler) fragment(ctx context.Context, topic string) ([]byte, error) {
	v := h.view(ctx, topic, countAge)
	var b bytes.Buffer
	if err := h.pages.ExecuteTemplate(&b, v.template(), v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// policy lets a page show itself, with the styles and the script that carry nonce, and
// ask for its own updates: nothing else.
func policy(nonce string) string {
	return "default-src 'none'; style-src 'nonce-" + nonce + "'; script-src 'nonce-" + nonce + "'; connect-src 'self'; " +
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func newNonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:])
}

func parsePages() (*template.Template, error) {
	return template.New("").Funcs(functions).ParseFS(assets, "assets/*.html")
}

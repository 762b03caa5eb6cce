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
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/deleter"
)

//go:embed assets
var assets embed.FS

const (
	maxGathering = 4    // pages that are gathered at once for single requests
	maxParallel  = 8    // reads at once for one page
	maxQuery     = 1024 // bytes of a name; no namespace has a longer one
)

// view is the content of a page.
type view interface {
	status() int // of the HTTP response
	writeText(io.Writer) error
	template() string // the template of the content
	title() string
}

// page is the data of the template "page".
type page struct {
	Title   string // of the service
	Heading string
	Kind    string // the template of View
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
		http.Error(w, "the debug pages are read-only: use GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, "the query cannot be parsed", http.StatusBadRequest)
		return
	}
	name := query.Get("namespace")
	if len(name) > maxQuery || !utf8.ValidString(name) {
		http.Error(w, "no namespace can have this name", http.StatusNotFound)
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
		http.Error(w, "too many pages are being gathered; try again later", http.StatusServiceUnavailable)
		return
	}
	defer func() { <-h.gathering }()
	v := h.view(r.Context(), name, 0)
	if r.Context().Err() != nil {
		return // the client went away
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
		http.Error(w, "the page cannot be rendered: "+visible(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(v.status())
	if r.Method != http.MethodHead {
		_, _ = body.WriteTo(w) // the client went away
	}
}

// enter waits, at most Patience, until one more page may be gathered.
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

// view gathers the index, with a count no older than maxCountAge, or the page of a namespace.
func (h *Handler) view(ctx context.Context, name string, maxCountAge time.Duration) view {
	ctx, cancel := context.WithTimeout(ctx, h.options.Patience)
	defer cancel()
	if name == "" {
		return h.index(ctx, maxCountAge)
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

// fragment gathers and renders the update of a topic: the name of a namespace, or empty for
// the index.
func (h *Handler) fragment(ctx context.Context, topic string) ([]byte, error) {
	v := h.view(ctx, topic, countInterval)
	var b bytes.Buffer
	if err := h.pages.ExecuteTemplate(&b, v.template(), v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// policy permits only the styles and the script with the nonce, and the page's own updates.
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

// each calls f for 0 to n-1, several at once, and waits for all.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(n, maxParallel) {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// safely calls f, which calls code of the host. A panic costs a part of a page, not the process.
func safely(f func() error) error { return deleter.CatchPanic("it", f) }

package debug

import (
	"net/http"
	"strings"
)

// foreign reports whether a browser asks on behalf of another site, for something else
// than to be led to a page: such a site could keep this one busy, and is told nothing.
// Programs do not say on whose behalf they ask.
func foreign(r *http.Request, format string) bool {
	switch strings.ToLower(r.Header.Get("Sec-Fetch-Site")) {
	case "", "none", "same-origin":
		return false
	}
	page := format == "" || format == "html"
	return !page || !strings.EqualFold(r.Header.Get("Sec-Fetch-Mode"), "navigate")
}

// flushes reports whether w can pass on what was written before all of it is.
func flushes(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return false
		}
	}
}

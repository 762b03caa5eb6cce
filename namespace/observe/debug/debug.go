// Package debug serves pages that show terminating namespaces and why they still exist, in
// the manner of net/http/pprof: mount a [Handler] and open it in a browser.
//
// The index counts namespaces by phase and lists the terminating ones, the oldest first,
// each with its stage, progress and first cause. The page of a namespace shows its whole
// diagnosis, a timeline of its passes and the audit records of operators. Open pages update
// themselves; without JavaScript they show the state at the time of the request.
//
// Programs can read everything as well. The query of a request selects the content and its
// path is ignored, so a handler can be mounted anywhere:
//
//	?                                  the index
//	?namespace=NAME                    the page of a namespace
//	?...&format=json, ?...&format=text the same as JSON, or as text for a terminal
//
// The handler is read-only and answers only GET and HEAD. It does not authenticate its
// clients: the host must guard it, as it would guard pprof, since the pages show names,
// contacts and errors. The pages load nothing from other servers, and a strict
// Content-Security-Policy enforces that. Other web sites in the same browser may link to the
// pages; package httpguard rejects all their other requests. It also rejects requests for a
// host other than localhost, an IP address or one of [Options.Hosts], because a site can make
// its own name resolve to this server.
package debug

import (
	"cmp"
	"context"
	"html/template"
	"iter"
	"net/http"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// Namespaces reads namespaces for a [Handler]. The namespaces of a controller will do. The
// index shows more if they implement [Counter] or [Holds].
type Namespaces interface {
	// Get returns the namespace, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
	// Terminating yields the terminating namespaces, then a [namespace.EventSynced]. The
	// handler stops there.
	Terminating(ctx context.Context, after string) iter.Seq2[namespace.Event, error]
}

// Counter counts namespaces. It is optional for [Namespaces].
type Counter interface {
	Count(ctx context.Context) (active, terminating int, err error)
}

// Holds lists namespaces whose deletion is delayed. It is optional for [Namespaces].
type Holds interface {
	// Holds yields the current holds, then a [namespace.EventSynced]. The handler stops there.
	Holds(ctx context.Context, after string) iter.Seq2[namespace.Event, error]
}

// Explainer explains namespaces, also names that no namespace has. [explain.Explainer]
// implements it.
type Explainer interface {
	Explain(ctx context.Context, name string) (explain.Diagnosis, error)
}

// Summarizer explains a namespace for the index at less cost. It is optional for [Explainer].
type Summarizer interface {
	Summarize(ctx context.Context, name string) (explain.Diagnosis, error)
}

// Options tunes a [Handler]. Zero fields take the defaults.
type Options struct {
	// Hosts are additional names, without a port, by which browsers reach the pages. Requests
	// for other names are answered 403; see [httpguard.New].
	Hosts []string
	// Title is the heading of the pages; default "Namespaces".
	Title string
	// Interval is the time between updates of open pages; default 2 s. Pages on which only
	// ages have changed are updated every 15 s, and namespaces are counted every 15 s.
	Interval time.Duration
	// Patience bounds the time to gather one page; default 10 s. The page notes which parts
	// did not answer. A request also waits at most this long while other pages are being
	// gathered, and is then answered 503. Patience ends contexts: a part of the host that
	// ignores its context delays its page, and Close.
	Patience time.Duration
	// Rows bounds how many terminating namespaces the index explains, the oldest first;
	// default 100.
	Rows int
	// Viewers bounds how many open pages are updated; default 64. Further ones show the
	// state at the time of the request.
	Viewers int
	// Parties lists the announced parties for the index; nil: not shown.
	Parties func(ctx context.Context) ([]parties.Party, error)
	// Records lists the audit records of a namespace, the oldest first; nil: not shown.
	Records func(ctx context.Context, name string) ([]audit.Record, error)
}

func (o Options) withDefaults() Options {
	o.Title = cmp.Or(o.Title, "Namespaces")
	o.Interval = cmp.Or(o.Interval, 2*time.Second)
	o.Patience = cmp.Or(o.Patience, 10*time.Second)
	o.Rows = cmp.Or(o.Rows, 100)
	o.Viewers = cmp.Or(o.Viewers, 64)
	return o
}

// Handler serves the pages. Make one with [New]. It is safe for concurrent use.
//
// Open pages share one goroutine that reads for all of them; it runs only while there are
// any. [http.Server.Shutdown] waits for open pages, so give Close to
// [http.Server.RegisterOnShutdown].
type Handler struct {
	namespaces Namespaces
	explainer  Explainer
	options    Options
	guard      *httpguard.Guard
	pages      *template.Template
	ages       ages
	counts     counts
	hub        *hub
	gathering  chan struct{} // one element for each page that is being gathered
}

// New returns a handler that shows namespaces as explainer explains them. Nil options are all
// defaults. A missing argument or an invalid option is a [namespace.ErrBadRequest].
func New(namespaces Namespaces, explainer Explainer, options *Options) (*Handler, error) {
	var o Options
	if options != nil {
		o = *options
	}
	guard, err := httpguard.New(o.Hosts...)
	switch {
	case namespaces == nil:
		return nil, badRequest("namespaces must be set")
	case explainer == nil:
		return nil, badRequest("explainer must be set")
	case err != nil:
		return nil, badRequest("option Hosts: " + err.Error())
	case o.Interval < 0 || o.Patience < 0 || o.Rows < 0 || o.Viewers < 0:
		return nil, badRequest("options Interval, Patience, Rows and Viewers must not be negative")
	}
	pages, err := parsePages()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		namespaces: namespaces, explainer: explainer, options: o.withDefaults(), guard: guard, pages: pages, gathering: make(chan struct{}, maxGathering),
	}
	h.hub = newHub(h.fragment, h.options.Interval, h.options.Viewers)
	return h, nil
}

func badRequest(message string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Message: "debug: " + message}
}

// Close ends the updates of open pages and waits for their goroutine. Pages are still
// served, without updates. It may be called more than once, and returns nil.
func (h *Handler) Close() error {
	h.hub.close()
	return nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r) }

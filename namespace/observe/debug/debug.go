// Package debug serves pages that show which namespaces are going and what keeps
// them, in the manner of net/http/pprof: mount a [Handler] and open it in a browser.
//
// The index counts namespaces by phase and lists the terminating ones, the oldest
// first, each with its stage, its progress and what keeps it. The page of a namespace
// has the whole diagnosis, a timeline of its passes, what failed, what is left, and what
// operators did to it. Pages follow what happens by themselves; without JavaScript they
// are as of when they were asked for.
//
// Everything is also there for programs. The query of a request says what is shown, and
// its path is not looked at, so a handler can be mounted anywhere:
//
//	?                                  the index
//	?namespace=NAME                    the page of a namespace
//	?...&format=json, ?...&format=text the same as data, as text for a terminal
//
// The handler writes nothing and answers only GET and HEAD. It does not authenticate its
// clients: the host guards it, as it would guard pprof, since the pages show names, contacts
// and errors. The pages load nothing from other servers, and a strict Content-Security-Policy
// enforces that. Other web sites in the same browser may link to the pages; package httpguard
// refuses all their other requests. It also refuses requests for a host other than localhost,
// an IP address or one of [Options.Hosts], because a site can make its own name resolve to
// this server.
package debug

import (
	"context"
	"html/template"
	"iter"
	"net/http"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// Namespaces is what a [Handler] needs of the place where namespaces are kept. What
// serves a controller will do. If it is a [Counter] or [Holds] too, the index has more
// to tell.
type Namespaces interface {
	// Get returns the namespace as it is now, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
	// Terminating yields what is terminating now, then a [namespace.EventSynced]; what
	// comes after that is not asked for.
	Terminating(ctx context.Context, after string) iter.Seq2[namespace.TerminationEvent, error]
}

// Counter is what a place may offer beyond: counting its namespaces.
type Counter interface {
	Count(ctx context.Context) (active, terminating int, err error)
}

// Holds is what a place may offer beyond: namespaces whose deletion is delayed.
type Holds interface {
	// Holds yields what is on hold now, then a [declare.HoldsSynced]; what comes after
	// that is not asked for.
	Holds(ctx context.Context, after string) iter.Seq2[declare.HoldEvent, error]
}

// Explainer tells why a namespace is still there: an [explain.Explainer]. It also
// explains names that no namespace has.
type Explainer interface {
	Explain(ctx context.Context, name string) (explain.Diagnosis, error)
}

// Options tunes a [Handler]. Zero fields take the defaults.
type Options struct {
	// Hosts are additional names, without a port, by which browsers reach the pages. Requests
	// for other names are answered 403; see [httpguard.New].
	Hosts []string
	// Title is what the pages are headed with, such as the name of the service; default
	// "Namespaces".
	Title string
	// Interval is how often open pages are brought up to date; default 2 s. Pages of
	// which only ages have changed are brought up to date every 15 s, and namespaces are
	// counted every 15 s.
	Interval time.Duration
	// Patience is how long one page may take to be gathered; default 10 s. What did not
	// answer by then is said on it. It is also how long a request waits for its turn when
	// others are being gathered; it is answered with 503 then. Patience ends the contexts of
	// what the handler asks: what does not keep to its context delays its page for as long
	// as it likes, and Close as well.
	Patience time.Duration
	// Rows is how many terminating namespaces the index explains, those that are
	// terminating for longest; default 100.
	Rows int
	// Viewers is how many pages may be kept up to date at once; default 64. Further ones
	// are as of when they were asked for.
	Viewers int
	// Parties returns the agents that announced themselves, for the index; nil: not known.
	Parties func(ctx context.Context) ([]parties.Party, error)
	// Records returns what operators did to a namespace, the oldest first; nil: not known.
	Records func(ctx context.Context, name string) ([]audit.Record, error)
}

// Handler serves the pages. Make one with [New]. It is safe for concurrent use.
//
// Open pages share one goroutine that reads for all of them; it runs only while there
// are any. [http.Server.Shutdown] waits for open pages for ever, so give Close to
// [http.Server.RegisterOnShutdown].
type Handler struct {
	namespaces Namespaces
	explainer  Explainer
	options    Options
	guard      *httpguard.Guard
	pages      *template.Template
	ages       ages
	tally      lastTally
	hub        hub
	gathering  chan struct{} // holds one element for each page that is being gathered
}

// New returns a handler that shows namespaces as explainer explains them. Nil options
// are all defaults. A missing argument and an option out of range are refused with
// [namespace.ErrBadRequest].
func New(namespaces Namespaces, explainer Explainer, options *Options) (*Handler, error) {
	switch {
	case namespaces == nil:
		return nil, badOption("a handler needs namespaces")
	case explainer == nil:
		return nil, badOption("a handler needs an explainer")
	}
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	guard, err := httpguard.New(o.Hosts...)
	if err != nil {
		return nil, badOption("option Hosts: " + err.Error())
	}
	pages, err := parsePages()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		namespaces: namespaces,
		explainer:  explainer,
		options:    o,
		guard:      guard,
		pages:      pages,
		gathering:  make(chan struct{}, mostGathering),
	}
	h.hub.init(h.fragment, o.Interval, o.Viewers)
	return h, nil
}

// Close ends the updates of open pages, refuses further ones, and waits for what they
// share to end. Pages are served as before. It may be called more than once, and returns
// nil.
func (h *Handler) Close() error {
	h.hub.close()
	return nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r) }

func badOption(message string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Message: "debug: " + message}
}

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	for _, one := range []struct {
		name     string
		negative bool
	}{
		{"Interval", out.Interval < 0}, {"Patience", out.Patience < 0}, {"Rows", out.Rows < 0}, {"Viewers", out.Viewers < 0},
	} {
		if one.negative {
			return Options{}, badOption("option " + one.name + " must not be negative")
		}
	}
	orDefault(&out.Title, "Namespaces")
	orDefault(&out.Interval, 2*time.Second)
	orDefault(&out.Patience, 10*time.Second)
	orDefault(&out.Rows, 100)
	orDefault(&out.Viewers, 64)
	return out, nil
}

func orDefault[T comparable](v *T, byDefault T) {
	var zero T
	if *v == zero {
		*v = byDefault
	}
}

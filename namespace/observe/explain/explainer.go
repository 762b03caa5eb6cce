package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// Namespaces reads namespaces for an [Explainer]. A registry implements it.
type Namespaces interface {
	// Get returns the namespace, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
}

// Options lists the optional sources of an [Explainer]. If one fails, the diagnosis does
// without it and says so in its notes.
type Options struct {
	Recorder *Recorder
	// Parties lists the announced parties, see package parties. An answer, also a failure,
	// serves all explanations of the same second.
	Parties func(ctx context.Context) ([]parties.Party, error)
	// Records lists the audit records of a namespace, the oldest first.
	Records func(ctx context.Context, name string) ([]audit.Record, error)
	// Record returns one record with its inventory of the objects left by a forced drop.
	Record func(ctx context.Context, name, id string) (audit.Record, error)
	// Unguarded means that the host of the namespaces does not enforce the protections and
	// holds in annotations, as a stock Kubernetes does not.
	Unguarded bool
	// Primary is the finalizer of the primary party, which writes the conditions with plain types
	// ([namespace.Party]). Default: [finalizer.Kubernetes].
	Primary finalizer.Name
}

// Explainer explains namespaces by name. Make one with [New]. It is safe for concurrent use.
type Explainer struct {
	namespaces Namespaces
	options    Options
	announced  announced
}

// New returns an explainer of namespaces. Nil opts stand for no optional sources.
func New(namespaces Namespaces, opts *Options) *Explainer {
	e := &Explainer{namespaces: namespaces, announced: announced{lock: make(chan struct{}, 1)}}
	if opts != nil {
		e.options = *opts
	}
	return e
}

// Explain explains the namespace of that name as it is now. A name that no namespace has
// yields a diagnosis, not an error. Explain fails if the namespace cannot be read and the
// recorder knows no terminating one of that name.
func (e *Explainer) Explain(ctx context.Context, name string) (Diagnosis, error) {
	return e.explain(ctx, name, e.options.Record)
}

// Summarize is Explain without the names of the objects left by forced drops, only their
// number. It is meant for lists of many namespaces, because inventories may be large.
func (e *Explainer) Summarize(ctx context.Context, name string) (Diagnosis, error) {
	return e.explain(ctx, name, nil)
}

// readRecord reads one record with its inventory; nil: inventories are not read.
type readRecord func(ctx context.Context, name, id string) (audit.Record, error)

func (e *Explainer) explain(ctx context.Context, name string, read readRecord) (Diagnosis, error) {
	in := Input{Name: name, Unguarded: e.options.Unguarded, Primary: e.options.Primary}
	ns, err := e.namespaces.Get(ctx, name)
	if err == nil {
		in.Namespace = ns
	}
	if e.options.Recorder != nil {
		in.History = e.options.Recorder.History(name, in.Namespace.UID)
	}
	if err != nil && !errors.Is(err, namespace.ErrNotFound) {
		if h := in.History; ctx.Err() != nil || h.uid == "" || !h.removedAt.IsZero() {
			return Diagnosis{}, fmt.Errorf("explain namespace %q: %w", name, err)
		}
		in.Unread = err
		in.note("the namespace could not be read, this is its last recorded state", err)
	}
	if e.options.Parties != nil {
		if in.Parties, err = e.announced.list(ctx, e.options.Parties); err != nil {
			in.note("the owners of its finalizers could not be listed", err)
		}
	}
	e.records(ctx, &in, read)
	in.Now = time.Now()
	return Explain(in), nil
}

func (in *Input) note(what string, err error) {
	in.Notes = append(in.Notes, what+": "+shorten(text(err), maxText))
}

// records adds the audit records of the namespace, with inventories for the forced drops
// that the diagnosis lists.
func (e *Explainer) records(ctx context.Context, in *Input, read readRecord) {
	if e.options.Records == nil {
		return
	}
	records, err := e.options.Records(ctx, in.Name)
	if err != nil {
		in.note("the audit records could not be read", err)
		return
	}
	in.Records = records
	if read == nil {
		return
	}
	in.Records = slices.Clone(records)
	forgotten := map[string]bool{} // since they were listed
	uid := cmp.Or(in.Namespace.UID, in.History.uid)
	for _, f := range relevantForces(audit.Drops(in.Records), uid, func(audit.Drop) bool { return false }) {
		if f.Forcing == nil || f.Forcing.Inventory != nil {
			continue
		}
		full, err := read(ctx, in.Name, f.Forcing.ID)
		switch {
		case err == nil:
			*f.Forcing = full
			continue
		case errors.Is(err, namespace.ErrNotFound):
			forgotten[f.Forcing.ID] = true
		}
		in.note("the objects left by force could not be read, record "+f.Forcing.ID, err)
	}
	in.Records = slices.DeleteFunc(in.Records, func(r audit.Record) bool { return forgotten[r.ID] })
}

// announced keeps the answer of Options.Parties for a second, so that a page which explains
// many namespaces asks once, even if the answer is a failure.
type announced struct {
	lock    chan struct{} // has an element while one explanation asks for all
	parties []parties.Party
	err     error
	at      time.Time
}

func (a *announced) list(ctx context.Context, list func(context.Context) ([]parties.Party, error)) ([]parties.Party, error) {
	select {
	case a.lock <- struct{}{}:
		defer func() { <-a.lock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if !a.at.IsZero() && time.Since(a.at) < time.Second {
		return a.parties, a.err
	}
	known, err := list(ctx)
	switch {
	case err != nil && ctx.Err() != nil: // another context may get an answer
		return nil, err
	case err != nil:
		known = nil
	case known == nil:
		known = []parties.Party{} // no party is announced, which differs from not known
	}
	a.parties, a.err, a.at = known, err, time.Now()
	return known, err
}

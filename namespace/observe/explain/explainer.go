package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

// Namespaces is what an [Explainer] needs of the place where namespaces are kept.
type Namespaces interface {
	// Get returns the namespace as it is now, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
}

// Options are what else an [Explainer] may ask; each is optional. What fails to answer
// is left out: the diagnosis is poorer, and its notes say so.
type Options struct {
	Recorder *Recorder
	// Parties are the agents that announced themselves, see package parties.
	Parties func(ctx context.Context) ([]parties.Party, error)
	// Records are the audit records of a namespace, the oldest first.
	Records func(ctx context.Context, name string) ([]audit.Record, error)
	// Record is one record with its inventory, for what was left after force.
	Record func(ctx context.Context, name, id string) (audit.Record, error)
	// Unguarded says that the namespaces are kept by a host which does not look at the
	// annotations of this library, such as a stock Kubernetes: protections and holds keep
	// nothing there.
	Unguarded bool
}

// Explainer gathers what is known of a namespace and explains it. Make one with
// [New]. It is safe for concurrent use.
type Explainer struct {
	namespaces Namespaces
	options    Options
}

// New returns an explainer of the namespaces that are kept there. A nil opts stands for
// none of what is optional. Without namespaces it answers every question with
// [namespace.ErrBadRequest].
func New(namespaces Namespaces, opts *Options) *Explainer {
	e := &Explainer{namespaces: namespaces}
	if opts != nil {
		e.options = *opts
	}
	return e
}

func badRequest(message string) error {
	return &namespace.Error{Kind: namespace.ErrBadRequest, Resource: "namespaces", Message: message}
}

// Explain explains the namespace of that name as it is now. That there is none is a
// diagnosis, not an error. An error says that the namespace could not be read, and that
// nothing was recorded of it that would do instead.
func (e *Explainer) Explain(ctx context.Context, name string) (Diagnosis, error) {
	switch {
	case ctx == nil:
		return Diagnosis{}, badRequest("an explanation needs a context")
	case e.namespaces == nil:
		return Diagnosis{}, badRequest("an explainer needs namespaces")
	}
	if name == "" {
		return Diagnosis{}, badRequest("an explanation needs the name of a namespace")
	}
	ns, err := e.namespaces.Get(ctx, name)
	if err != nil {
		ns = namespace.Namespace{}
	}
	in := Input{Name: name, Namespace: ns, Unguarded: e.options.Unguarded}
	if e.options.Recorder != nil {
		in.History = e.options.Recorder.History(name, ns.UID)
	}
	if err != nil && !errors.Is(err, namespace.ErrNotFound) {
		if h := in.History; ctx.Err() != nil || h.UID == "" || !h.Ended.IsZero() {
			return Diagnosis{}, fmt.Errorf("explain namespace %q: %w", name, err)
		}
		in.Unread = text(err)
		in.note("the namespace could not be read, so this is what was recorded of it", err)
	}
	e.parties(ctx, &in)
	in.Records = e.records(ctx, &in, cmp.Or(ns.UID, in.History.UID))
	in.Now = time.Now()
	return Explain(in), nil
}

// note notes what could not be found out.
func (in *Input) note(what string, err error) {
	in.Notes = append(in.Notes, what+": "+brief(text(err), maxText))
}

// parties asks who announced itself.
func (e *Explainer) parties(ctx context.Context, in *Input) {
	if e.options.Parties == nil {
		return
	}
	known, err := e.options.Parties(ctx)
	switch {
	case err != nil:
		in.note("who owns the finalizers could not be found out", err)
	case known == nil:
		in.Parties = []parties.Party{}
	default:
		in.Parties = known
	}
}

// records returns the audit records of the namespace, with what was left by each force
// that is told of that incarnation (uid empty: of any).
func (e *Explainer) records(ctx context.Context, in *Input, uid string) []audit.Record {
	if e.options.Records == nil {
		return nil
	}
	records, err := e.options.Records(ctx, in.Name)
	if err != nil {
		in.note("the audit records could not be read", err)
	}
	if err != nil || e.options.Record == nil {
		return records
	}
	records = slices.Clone(records) // the list is another's
	forgotten := map[string]bool{}  // since it was listed
	for _, f := range worthTelling(forcesIn(records), uid, func(force) bool { return false }) {
		if f.begun == nil || f.begun.Inventory != nil {
			continue
		}
		full, err := e.options.Record(ctx, in.Name, f.begun.ID)
		if errors.Is(err, namespace.ErrNotFound) {
			forgotten[f.begun.ID] = true
		}
		if err != nil {
			in.note("what force left could not be read, record "+f.begun.ID, err)
			continue
		}
		*f.begun = full
	}
	return slices.DeleteFunc(records, func(r audit.Record) bool { return forgotten[r.ID] })
}

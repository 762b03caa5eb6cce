package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/audit"
	"github.com/nslifecycle/nslifecycle/namespace/parties"
)

// Namespaces is what an [Explainer] needs of the place where namespaces are kept.
type Namespaces interface {
	// Get returns the namespace as it is now, or [namespace.ErrNotFound].
	Get(ctx context.Context, name string) (namespace.Namespace, error)
}

// Options are what else an [Explainer] may ask; each is optional. What fails to answer
// is left out, and the diagnosis is poorer.
type Options struct {
	Recorder *Recorder
	// Parties are the agents that announced themselves, see package parties.
	Parties func(ctx context.Context) ([]parties.Party, error)
	// Records are the audit records of a namespace, the oldest first.
	Records func(ctx context.Context, name string) ([]audit.Record, error)
	// Record is one record with its inventory, for what was left after force.
	Record func(ctx context.Context, name, id string) (audit.Record, error)
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
// diagnosis, not an error. An error says that the namespace could not be read.
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
	if err != nil && !errors.Is(err, namespace.ErrNotFound) {
		return Diagnosis{}, fmt.Errorf("explain namespace %q: %w", name, err)
	}
	if err != nil {
		ns = namespace.Namespace{}
	}
	in := Input{Name: name, Namespace: ns}
	if e.options.Recorder != nil {
		in.History = e.options.Recorder.History(name, ns.UID)
	}
	if e.options.Parties != nil {
		if known, err := e.options.Parties(ctx); err == nil && known == nil {
			in.Parties = []parties.Party{}
		} else if err == nil {
			in.Parties = known
		}
	}
	uid := ns.UID
	if uid == "" {
		uid = in.History.UID
	}
	in.Records = e.records(ctx, name, uid)
	in.Now = time.Now()
	return Explain(in), nil
}

// records returns the audit records of the namespace, with what was left by each force
// that is told of that incarnation (uid empty: of any).
func (e *Explainer) records(ctx context.Context, name, uid string) []audit.Record {
	if e.options.Records == nil {
		return nil
	}
	records, err := e.options.Records(ctx, name)
	if err != nil || e.options.Record == nil {
		return records
	}
	records = slices.Clone(records) // the list is another's
	for _, f := range worthTelling(forcesIn(records), uid, func(force) bool { return false }) {
		if f.begun == nil || f.begun.Inventory != nil {
			continue
		}
		if full, err := e.options.Record(ctx, name, f.begun.ID); err == nil {
			*f.begun = full
		}
	}
	return records
}

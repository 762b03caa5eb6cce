package explain

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/audit"
	"github.com/nslifecycle/nslifecycle/namespace/parties"
)

// Namespaces is what an [Explainer] needs of the place where namespaces are kept.
type Namespaces interface {
	Get(ctx context.Context, name string) (namespace.Namespace, error)
}

// Options are what else an [Explainer] may ask; each is optional.
type Options struct {
	Recorder *Recorder
	Parties  func(ctx context.Context) ([]parties.Party, error)
	Records  func(ctx context.Context, name string) ([]audit.Record, error)
}

// Explainer gathers what is known of a namespace and explains it. Make one with
// [New]. It is safe for concurrent use.
type Explainer struct {
	namespaces Namespaces
	options    Options
}

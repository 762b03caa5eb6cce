package deleter

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Trace is a set of hooks around calls, for tracing, metrics and logs. [WithTrace] attaches
// it to a context. Any hook may be nil. Hooks are called concurrently and must be quick.
type Trace struct {
	// Start runs before a call. The call, and everything below it, gets the context that
	// Start returns.
	Start func(ctx context.Context, call Call) context.Context
	// End runs after the call, with the context that Start returned.
	End func(ctx context.Context, call Call, result CallResult)
}

// Call is one call to a source, to the discovery ([OpDiscover], without a Resource), or to
// the storage of the namespaces (of the resource type "namespaces", by package pass).
type Call struct {
	Resource namespace.ResourceType
	Op       Op
}

// CallResult is the outcome of a [Call].
type CallResult struct {
	// Objects is the number of objects that the call listed, counted, deleted or left,
	// depending on Op; -1 if the source did not count them.
	Objects int
	Err     error
}

type traceKey struct{}

// WithTrace returns a context whose calls t traces. A trace that ctx already has stays in
// use, around t. Nil traces nothing.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	outer := traceOf(ctx)
	switch {
	case t == nil:
		return ctx
	case outer != nil:
		inner := t
		t = &Trace{
			Start: func(ctx context.Context, call Call) context.Context {
				return inner.start(outer.start(ctx, call), call)
			},
			End: func(ctx context.Context, call Call, result CallResult) {
				inner.end(ctx, call, result)
				outer.end(ctx, call, result)
			},
		}
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceCall calls f between the hooks of ctx's trace, if it has one, and returns the error
// of f. Composed deleters and package pass trace their calls; any other [Deleter] should do
// so too, because a controller takes a call without an error as progress of the pass.
func TraceCall(ctx context.Context, call Call, f func(context.Context) (objects int, err error)) error {
	t := traceOf(ctx)
	if t == nil {
		_, err := f(ctx)
		return err
	}
	ctx = t.start(ctx, call)
	var result CallResult
	result.Objects, result.Err = f(ctx)
	t.end(ctx, call, result)
	return result.Err
}

// traceOf returns the trace of ctx, or nil.
func traceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

func (t *Trace) start(ctx context.Context, call Call) context.Context {
	if t.Start == nil {
		return ctx
	}
	return t.Start(ctx, call)
}

func (t *Trace) end(ctx context.Context, call Call, result CallResult) {
	if t.End != nil {
		t.End(ctx, call, result)
	}
}

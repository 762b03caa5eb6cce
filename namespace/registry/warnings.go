package registry

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
)

type warningsKey struct{}

// WithWarnings returns a context under which writes to namespaces call warn with each of
// the [namespace.Warnings] of what they wrote, dry runs included. A [Registry.Delete] that
// finds the namespace on hold warns as the one that put it on hold. warn is called before
// the write returns, in its goroutine, and not for writes that fail.
func WithWarnings(ctx context.Context, warn func(text string)) context.Context {
	return context.WithValue(ctx, warningsKey{}, warn)
}

// warned reports the warnings about a write that replaced old by next, and returns next.
func warned(ctx context.Context, old, next namespace.Namespace) namespace.Namespace {
	if warn, ok := ctx.Value(warningsKey{}).(func(string)); ok {
		for _, text := range namespace.Warnings(old, next) {
			warn(text)
		}
	}
	return next
}

package registry

import (
	"context"

	"github.com/nslifecycle/nslifecycle/namespace"
)

type warningsKey struct{}

// WithWarnings returns a context under which writes to namespaces, including dry runs, call
// warn with each of their [namespace.Warnings]. A [Registry.Delete] that finds the namespace
// on hold repeats the warnings of the Delete that put it on hold. warn is called before the
// write returns, in its goroutine, and not for failed writes.
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

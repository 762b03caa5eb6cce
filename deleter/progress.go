package deleter

import "context"

type progressKey struct{}

// WithProgress returns a context that calls f each time a source, the discovery or the
// namespace storage answers without an error. It distinguishes a slow pass from a hanging
// one. f is called concurrently and must be quick.
func WithProgress(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// ReportProgress calls the function given to [WithProgress], if any. Composed deleters and
// package pass call it. Any other [Deleter] should call it after each successful call.
func ReportProgress(ctx context.Context) {
	if f, ok := ctx.Value(progressKey{}).(func()); ok {
		f()
	}
}

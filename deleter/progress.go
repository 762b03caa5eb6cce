package deleter

import "context"

type progressKey struct{}

// WithProgress returns a context under which f is called each time a source, the
// discovery or the place where namespaces are kept answers without an error. It
// distinguishes a long pass from one that hangs. Calls are concurrent, and f must be quick.
func WithProgress(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// ReportProgress calls the function given to [WithProgress], if any. Composed deleters and package
// pass call it; a [Deleter] of another kind should, whenever a call has succeeded.
func ReportProgress(ctx context.Context) {
	if f, ok := ctx.Value(progressKey{}).(func()); ok {
		f()
	}
}

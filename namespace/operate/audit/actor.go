package audit

import "context"

type actorKey struct{}

// WithActor returns a context that says on whose behalf something is done: the name of
// a user, for the records that are written under it. A server sets what it has
// authenticated; nobody else may.
func WithActor(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, actorKey{}, name)
}

// Actor returns the name that [WithActor] has set; empty: none.
func Actor(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return name
}

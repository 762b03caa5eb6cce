package authorization

import "context"

type userKey struct{}

// WithUser returns a context that carries who sent the request; the server gives
// it to the registry, so that admission can look at it.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns who sent the request, if ctx is of one.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

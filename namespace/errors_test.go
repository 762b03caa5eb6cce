package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
)

func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, http.StatusOK},
		{namespace.ErrNotFound, http.StatusNotFound},
		{namespace.ErrExists, http.StatusConflict},
		{namespace.ErrConflict, http.StatusConflict},
		{namespace.ErrTerminating, http.StatusForbidden},
		{namespace.ErrForbidden, http.StatusForbidden},
		{namespace.ErrInvalid, http.StatusUnprocessableEntity},
		{namespace.ErrBadRequest, http.StatusBadRequest},
		{namespace.ErrGone, http.StatusGone},
		{namespace.ErrUnknownOutcome, http.StatusInternalServerError},
		{namespace.ErrUnavailable, http.StatusServiceUnavailable},
		{context.DeadlineExceeded, http.StatusGatewayTimeout},
		{context.Canceled, http.StatusGatewayTimeout},
		{errors.New("other"), http.StatusInternalServerError},
		{fmt.Errorf("create: %w", &namespace.Error{Kind: namespace.ErrExists}), http.StatusConflict},
		{&namespace.Error{Kind: namespace.ErrForbidden, Err: namespace.ErrInvalid}, http.StatusForbidden},
		{&namespace.Error{Kind: namespace.ErrUnknownOutcome, Err: context.DeadlineExceeded}, http.StatusInternalServerError},
	} {
		require.Equal(t, tt.want, namespace.HTTPStatus(tt.err), "%v", tt.err)
	}
}

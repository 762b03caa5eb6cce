package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// TestFailure checks the Status for each kind of error.
func TestFailure(t *testing.T) {
	refusal := func(kind, cause error) error {
		return &namespace.Error{Kind: kind, Resource: "widgets.example.com", Name: "w", Message: "text", Err: cause,
			Causes: []namespace.Violation{{Type: "T", Field: "f", Message: "m"}}}
	}
	const details = `"details":{"name":"w","group":"example.com","kind":"widgets","causes":[{"reason":"T","message":"m","field":"f"}]}`
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"not found", refusal(namespace.ErrNotFound, nil), `"message":"text","reason":"NotFound",` + details + `,"code":404`},
		{"exists", refusal(namespace.ErrExists, nil), `"message":"text","reason":"AlreadyExists",` + details + `,"code":409`},
		{"conflict", refusal(namespace.ErrConflict, store.ErrConflict), `"message":"text","reason":"Conflict",` + details + `,"code":409`},
		{"terminating", refusal(namespace.ErrTerminating, namespace.ErrForbidden), `"message":"text","reason":"Forbidden",` + details + `,"code":403`},
		{"forbidden", refusal(namespace.ErrForbidden, nil), `"message":"text","reason":"Forbidden",` + details + `,"code":403`},
		{"invalid", refusal(namespace.ErrInvalid, nil), `"message":"text","reason":"Invalid",` + details + `,"code":422`},
		{"bad request", refusal(namespace.ErrBadRequest, nil), `"message":"text","reason":"BadRequest","code":400`},
		{"gone", refusal(namespace.ErrGone, store.ErrGone), `"message":"text","reason":"Expired","code":410`},
		{"wrapped", fmt.Errorf("outside: %w", refusal(namespace.ErrNotFound, nil)), `"message":"text","reason":"NotFound",` + details + `,"code":404`},
		{"too large", refusal(namespace.ErrInvalid, store.ErrTooLarge), `"message":"Request entity too large: text","reason":"RequestEntityTooLarge","code":413`},
		{"body too large", &http.MaxBytesError{Limit: 7}, `"message":"Request entity too large: limit is 7","reason":"RequestEntityTooLarge","code":413`},
		{"future", refusal(namespace.ErrBadRequest, store.ErrFuture), `"message":"Timeout: Too large resource version: text","reason":"Timeout",` +
			`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504`},
		{"future, with both revisions", refusal(namespace.ErrBadRequest, &store.FutureError{Asked: 9, Current: 7}), `"message":"Timeout: Too large resource version: 9, current: 7","reason":"Timeout",` +
			`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504`},
		{"media type", refusal(codec.ErrMediaType, nil), `"message":"text","reason":"UnsupportedMediaType","code":415`},
		{"not acceptable", refusal(codec.ErrNotAcceptable, nil), `"message":"text","reason":"NotAcceptable","code":406`},
		{"deadline", fmt.Errorf("registry: %w", context.DeadlineExceeded),
			`"message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{"retryAfterSeconds":1},"code":504`},
		{"store closed", fmt.Errorf("registry: %w", store.ErrClosed),
			`"message":"the server is currently unable to handle the request","reason":"ServiceUnavailable","details":{"retryAfterSeconds":1},"code":503`},
		{"store unavailable", fmt.Errorf("registry: %w", &store.Error{Op: "get", Err: store.ErrUnavailable}),
			`"message":"the server is currently unable to handle the request","reason":"ServiceUnavailable","details":{"retryAfterSeconds":1},"code":503`},
		{"registry unavailable", refusal(namespace.ErrUnavailable, nil),
			`"message":"the server is currently unable to handle the request","reason":"ServiceUnavailable","details":{"retryAfterSeconds":1},"code":503`},
		{"store full", refusal(namespace.ErrUnavailable, &store.Error{Op: "commit", Err: store.ErrFull}),
			`"message":"the storage of the server is full; nothing was written","reason":"InsufficientStorage","code":507`},
		{"registry closed", registry.ErrClosed,
			`"message":"the server is currently unable to handle the request","reason":"ServiceUnavailable","details":{"retryAfterSeconds":1},"code":503`},
		{"unknown outcome", refusal(namespace.ErrUnknownOutcome, context.DeadlineExceeded), `"message":"Internal error occurred: the outcome of the write is unknown; read the object back to see whether it was written, and see the log of the server for the details",` +
			`"reason":"InternalError","details":{"causes":[{"message":"the outcome of the write is unknown; read the object back to see whether it was written, and see the log of the server for the details"}]},"code":500`},
		{"unknown outcome, bare", errors.Join(namespace.ErrUnknownOutcome), `"message":"Internal error occurred: the outcome of the write is unknown; read the object back to see whether it was written, and see the log of the server for the details",` +
			`"reason":"InternalError","details":{"causes":[{"message":"the outcome of the write is unknown; read the object back to see whether it was written, and see the log of the server for the details"}]},"code":500`},
		{"a Status", fmt.Errorf("outside: %w", apierrors.NewTooManyRequests("slow down", 3)), `"message":"slow down","reason":"TooManyRequests","details":{"retryAfterSeconds":3},"code":429`},
		{"anything else", errors.New("odd"), `"message":"Internal error occurred: the log of the server has the details","reason":"InternalError","details":{"causes":[{"message":"the log of the server has the details"}]},"code":500`},
		{"a kind without a code", refusal(errors.New("odd"), nil), `"message":"Internal error occurred: the log of the server has the details","reason":"InternalError","details":{"causes":[{"message":"the log of the server has the details"}]},"code":500`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is, err := json.Marshal(failure(tt.err))
			require.NoError(t, err)
			require.JSONEq(t, `{"metadata":{},"status":"Failure",`+tt.want+`}`, string(is))
		})
	}
}

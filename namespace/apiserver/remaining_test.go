package apiserver_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRemainingItemCount checks that a page of a list reports the number of remaining items. The
// field is absent on the last page and for lists with a selector.
func TestRemainingItemCount(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	for i := range 5 {
		e.must(http.StatusCreated, "POST", maps, fmt.Sprintf(`{"metadata":{"name":"a%d"}}`, i))
	}
	for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		a := e.must(http.StatusOK, "GET", maps+"?limit=2", "", "Accept", accept)
		require.EqualValues(t, 3, a.get("metadata", "remainingItemCount"))
		next := url.QueryEscape(a.text("metadata", "continue"))
		require.EqualValues(t, 1, e.must(http.StatusOK, "GET", maps+"?limit=2&continue="+next, "", "Accept", accept).get("metadata", "remainingItemCount"))
		require.Empty(t, e.must(http.StatusOK, "GET", maps+"?limit=3&continue="+next, "", "Accept", accept).get("metadata", "remainingItemCount"))
		require.Empty(t, e.must(http.StatusOK, "GET", maps+"?limit=2&labelSelector=!a", "", "Accept", accept).get("metadata", "remainingItemCount"))
	}
}

package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLargeLists checks that a list of any size is one JSON document. The header has a
// Content-Length unless the list is large and sent in parts.
func TestLargeLists(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	large := strings.Repeat("x", 150<<10)
	huge := strings.Repeat("y", 400<<10)
	for n, value := range []string{"", "small", large, large, huge, large, "small", huge, huge} {
		if value != "" {
			e.must(http.StatusCreated, "POST", configmapsOfX, fmt.Sprintf(`{"metadata":{"name":"o%d"},"data":{"v":%q}}`, n, value))
		}
		a := e.must(http.StatusOK, "GET", configmapsOfX, "")
		if length := a.Header.Get("Content-Length"); length != "" || len(a.Body) < 512<<10 {
			require.Equal(t, strconv.Itoa(len(a.Body)), length)
		}
		var list struct {
			Kind  string
			Items []struct {
				Metadata struct{ Name string }
				Data     struct{ V string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(a.Body), &list))
		require.Equal(t, "ConfigMapList", list.Kind)
		require.Len(t, list.Items, n)
		if n > 0 {
			require.Equal(t, fmt.Sprint("o", n), list.Items[n-1].Metadata.Name)
			require.Equal(t, value, list.Items[n-1].Data.V)
		}
	}
}

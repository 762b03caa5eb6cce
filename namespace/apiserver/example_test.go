package apiserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// Example declares two kinds of content and sends requests to the server.
func Example() {
	widgets := kinds.Custom(registry.Type{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true})
	content := []kinds.Kind{kinds.ConfigMaps(), widgets}

	store, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	namespaces, err := registry.New(store, &registry.Options{
		Types: []registry.Type{content[0].Type, content[1].Type},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer namespaces.Close()
	server, err := apiserver.New(namespaces, content, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	send := func(method, path, body string) {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body)))
		fmt.Println(method, path, w.Code, http.StatusText(w.Code))
	}
	send("POST", "/api/v1/namespaces", `{"metadata":{"name":"development"}}`)
	send("POST", "/apis/example.com/v1/namespaces/development/widgets", `{"metadata":{"name":"a"},"spec":{"size":1}}`)
	send("DELETE", "/api/v1/namespaces/development", "")
	send("POST", "/apis/example.com/v1/namespaces/development/widgets", `{"metadata":{"name":"late"}}`)
	// Output:
	// POST /api/v1/namespaces 201 Created
	// POST /apis/example.com/v1/namespaces/development/widgets 201 Created
	// DELETE /api/v1/namespaces/development 200 OK
	// POST /apis/example.com/v1/namespaces/development/widgets 403 Forbidden
}

package clients

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// users of a guarded server: their names are their tokens.
var users = map[string]authorization.User{
	"admin": {Name: "admin"},
	"alice": {Name: "alice", Groups: []string{"team-a"}},
	"bob":   {Name: "bob"},
}

// grants of a guarded server.
const grants = `
grants:
- users: [admin]
  cluster: true
  rules: [{verbs: ["*"], resources: ["*"]}]
- groups: [team-a]
  namespaces: [team-a]
  rules:
  - {verbs: ["*"], resources: [configmaps, widgets.example.com]}
  - {verbs: [get], resources: [namespaces]}
- groups: ["system:authenticated"]
  paths: ["/api*", "/openapi*", "/version"]
`

func authenticate(r *http.Request) (authorization.User, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	user, known := users[token]
	if !known {
		return authorization.User{}, errors.New("a known bearer token is needed")
	}
	return user, nil
}

// startGuarded is "guarded": a server with users, over TLS, since clients send tokens over TLS
// only. It writes guarded.yaml with a context for each user,
// and one for a stranger.
func startGuarded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: guarded")
	}
	list, err := authorization.Parse([]byte(grants))
	ts.Check(err)
	authorizer, err := authorization.New(list)
	ts.Check(err)
	h, err := plan{options: apiserver.Options{Authenticate: authenticate, Authorizer: authorizer}}.open()
	ts.Check(err)
	ts.Defer(func() { ts.Check(h.stop()) })
	front := httptest.NewUnstartedServer(h.server)
	front.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	front.EnableHTTP2 = true
	front.StartTLS()
	ts.Defer(front.Close)

	k := api.NewConfig()
	k.Clusters["guarded"] = &api.Cluster{
		Server:                   front.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}),
	}
	for _, name := range []string{"admin", "alice", "bob", "stranger"} {
		k.AuthInfos[name] = &api.AuthInfo{Token: name}
		k.Contexts[name] = &api.Context{Cluster: "guarded", AuthInfo: name}
	}
	ts.Check(clientcmd.WriteToFile(*k, filepath.Join(ts.Getenv("WORK"), "guarded.yaml")))
}

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "embed"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/attack.html
var page string

const envRequire = "NSLIFECYCLE_REQUIRE_SERVERS" // if set, a missing browser fails tests

// attempt is a request that a page makes.
type attempt struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Kind is the kind of request: a fetch with a body of type "text", "json" or none
	// ("untyped"), a "form", or a stream of "events".
	Kind string `json:"kind"`
	Body string `json:"body"` // of a form: its name and its value, separated by |
}

// answer is the part of an HTTP response that the page can read.
type answer struct {
	Status int // zero: the page cannot read the response
	Text   string
}

// answers lists the answers to all attempts for each kind of page.
type answers struct {
	Rebound []answer // the page's own host name resolves to the program
	Foreign []answer // the page sends requests to the program's address, another origin
	Allowed []answer // the program allows the page's host name
}

// visit opens a page of evil.example in Chromium. The page sends all attempts to the program
// at target (host:port). A page of allowed then does the same. A proxy replaces DNS: it
// serves the pages and forwards all other requests to the program.
func visit(t *testing.T, target, allowed string, attempts []attempt) answers {
	t.Helper()
	program := find(t)
	_, port, _ := strings.Cut(target, ":")
	reports := make(chan map[string][]answer, 2)
	var reached atomic.Int64 // requests of the foreign page to the program's address
	forward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: target})
		r.Out.Host = r.In.Host
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, requested, _ := strings.Cut(r.Host, ":"); {
		case requested != port:
			http.NotFound(w, r) // the browser's own requests
		case r.Host == target:
			reached.Add(1)
			forward.ServeHTTP(w, r)
		case r.URL.Path == "/attack.html":
			data, err := json.Marshal(map[string]any{"target": "http://" + target, "attempts": attempts, "next": "http://" + allowed + ":" + port + "/attack.html"})
			if err != nil {
				panic(err)
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(strings.Replace(page, "DATA", string(data), 1)))
		case r.URL.Path == "/report":
			var report map[string][]answer
			if json.NewDecoder(r.Body).Decode(&report) == nil {
				reports <- report
			}
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(proxy.Close)

	profile, err := os.MkdirTemp("", "chromium")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights",
		"--remote-debugging-port=0", "--user-data-dir="+profile, "--proxy-server="+proxy.URL, "--proxy-bypass-list=<-loopback>",
		"http://evil.example:"+port+"/attack.html")
	cmd.Env = append(os.Environ(), "HOME="+profile)
	cmd.WaitDelay = 10 * time.Second
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for range 100 { // child processes exit a little later
			if os.RemoveAll(profile) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	evil, ours := <-reports, <-reports
	require.NotZero(t, reached.Load(), "the browser itself kept the page from the program")
	require.Len(t, evil["rebound"], len(attempts))
	require.Len(t, evil["foreign"], len(attempts))
	return answers{evil["rebound"], evil["foreign"], ours["rebound"]}
}

func find(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const word = "no Chromium is installed (Debian: apt-get install chromium)"
	if os.Getenv(envRequire) != "" {
		t.Fatal(word)
	}
	t.Skip(word)
	return ""
}

// requireRefused fails the test if a page of another web site can read an answer.
func (a answers) requireRefused(t *testing.T, attempts []attempt) {
	t.Helper()
	for i, attempt := range attempts {
		if attempt.Kind != "form" { // a page can never read the answer to a form
			require.Contains(t, []int{0, http.StatusForbidden}, a.Rebound[i].Status, "%+v: %+v", attempt, a.Rebound[i])
		}
		require.Zero(t, a.Foreign[i].Status, "%+v: %+v", attempt, a.Foreign[i])
	}
}

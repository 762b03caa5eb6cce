package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

var (
	theNamespaces = schema.GroupResource{Resource: "namespaces"}

	asRead = namespace.Namespace{
		Meta: namespace.Meta{Name: "a", UID: "u", ResourceVersion: "7"},
		Spec: namespace.Spec{Finalizers: finalizer.NewSet("example.com/agent")},
	}
)

// over returns the namespaces of a client for a server.
func over(t testing.TB, config *rest.Config) *Namespaces {
	t.Helper()
	client, err := corev1client.NewForConfig(config)
	require.NoError(t, err)
	return namespacesOver(client.Namespaces())
}

func namespacesOver(client corev1client.NamespaceInterface) *Namespaces {
	get := func(ctx context.Context, name string) (*corev1.Namespace, error) {
		return client.Get(ctx, name, metav1.GetOptions{})
	}
	return newNamespaces(client, newIncarnations(get, time.Second))
}

// serving returns the namespaces of a server that answers with h.
func serving(t testing.TB, h http.HandlerFunc) *Namespaces {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return over(t, &rest.Config{Host: s.URL, QPS: -1})
}

func answerJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func answerStatus(w http.ResponseWriter, s *apierrors.StatusError) {
	s.ErrStatus.Kind, s.ErrStatus.APIVersion = "Status", "v1"
	answerJSON(w, int(s.ErrStatus.Code), s.ErrStatus)
}

// overStatus is a 410 in its older form.
func overStatus(message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonGone, Message: message,
	}}
}

// noPath is the 404 for a path that the server does not have.
var noPath = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
	Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
}}

func answerText(code int, kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// cutOff closes the connection in mid-answer.
func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `{"kind":"Namespace","metadata":{"name":"a"`)
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func noAnswer(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// anyKind has all kinds of errors.
var anyKind = []error{
	namespace.ErrNotFound, namespace.ErrExists, namespace.ErrConflict, namespace.ErrTerminating, namespace.ErrForbidden,
	namespace.ErrInvalid, namespace.ErrBadRequest, namespace.ErrGone, namespace.ErrUnknownOutcome,
}

func kindOf(t *testing.T, err error) (kind error) {
	t.Helper()
	require.Error(t, err)
	for _, k := range anyKind {
		if errors.Is(err, k) {
			require.NoError(t, kind, "two kinds of %v", err)
			kind = k
		}
	}
	return kind
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const page = "<!DOCTYPE html><html>Sign in</html>"
	unknown := namespace.ErrUnknownOutcome
	for _, c := range []struct {
		name        string
		answer      http.HandlerFunc
		status      *apierrors.StatusError
		read, write error  // the kinds
		says        string // part of the message
	}{
		{name: "400", status: apierrors.NewBadRequest("odd"), read: namespace.ErrBadRequest, write: namespace.ErrBadRequest, says: "odd"},
		{name: "401", status: apierrors.NewUnauthorized("who"), says: "who"},
		{name: "403", status: apierrors.NewForbidden(theNamespaces, "a", errors.New("no")), read: namespace.ErrForbidden, write: namespace.ErrForbidden,
			says: `namespaces "a" is forbidden: no`},
		{name: "404", status: apierrors.NewNotFound(theNamespaces, "a"), read: namespace.ErrNotFound, write: namespace.ErrNotFound, says: `namespaces "a" not found`},
		{name: "404 for the path", status: noPath, says: "could not find"},
		{name: "404 in text", answer: answerText(404, "text/plain", "404 page not found"), says: "could not find"},
		{name: "405", status: apierrors.NewMethodNotSupported(theNamespaces, "finalize"), says: "not supported"},
		{name: "409", status: apierrors.NewConflict(theNamespaces, "a", errors.New("modified")), read: namespace.ErrConflict, write: namespace.ErrConflict, says: "modified"},
		{name: "409 for an existing object", status: apierrors.NewAlreadyExists(theNamespaces, "a"), read: namespace.ErrExists, write: namespace.ErrExists, says: "already exists"},
		{name: "410", status: apierrors.NewResourceExpired("too old"), read: namespace.ErrGone, write: namespace.ErrGone, says: "too old"},
		{name: "410 gone", status: overStatus("over"), read: namespace.ErrGone, write: namespace.ErrGone, says: "over"},
		{name: "422", status: apierrors.NewInvalid(schema.GroupKind{Kind: "Namespace"}, "a", field.ErrorList{field.Required(field.NewPath("spec"), "x")}),
			read: namespace.ErrInvalid, write: namespace.ErrInvalid, says: "spec: Required value: x"},
		{name: "429", status: apierrors.NewTooManyRequestsError("busy"), says: "busy"},
		{name: "500", status: apierrors.NewInternalError(errors.New("broken")), says: "broken"},
		{name: "500 in a page", answer: answerText(500, "text/html", page), says: "web page"},
		{name: "502 in a page", answer: answerText(502, "text/html", page), write: unknown, says: "web page"},
		{name: "503", status: apierrors.NewServiceUnavailable("later"), says: "later"},
		{name: "504", status: apierrors.NewTimeoutError("slow", 0), write: unknown, says: "slow"},
		{name: "a page", answer: answerText(200, "text/html", page), write: unknown, says: "web page"},
		{name: "403 in a page", answer: answerText(403, "text/html", page), says: "web page"},
		{name: "404 in a page", answer: answerText(404, "text/html", page), says: "web page"},
		{name: "no JSON", answer: answerText(200, "application/json", "{"), write: unknown, says: "unexpected end"},
		{name: "another object", answer: answerText(200, "application/json", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`), write: unknown, says: "not namespace"},
		{name: "another namespace", answer: answerText(200, "application/json", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"b"}}`), write: unknown, says: "not namespace"},
		{name: "no uid", answer: answerText(200, "application/json", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a"}}`), write: unknown, says: `not namespace "a" with a uid`},
		{name: "an empty object", answer: answerText(200, "application/json", `{"kind":"Namespace","apiVersion":"v1"}`), write: unknown, says: "not namespace"},
		{name: "cut off", answer: cutOff, write: unknown, says: "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answer := c.answer
			if c.status != nil {
				answer = func(w http.ResponseWriter, _ *http.Request) { answerStatus(w, c.status) }
			}
			n := serving(t, answer)
			for what, want := range map[string]error{"get": c.read, "status": c.write, "finalize": c.write} {
				_, err := call(t.Context(), n, what)
				require.Equal(t, want, kindOf(t, err), "%s: %v", what, err)
				require.ErrorContains(t, err, c.says, what)
				var refused *namespace.Error
				if want != nil {
					require.ErrorAs(t, err, &refused)
					require.Equal(t, namespace.Resource, refused.Resource)
					require.Equal(t, "a", refused.Name)
				}
				if c.status != nil {
					var status *apierrors.StatusError
					require.ErrorAs(t, err, &status, what)
					require.Equal(t, c.status.ErrStatus.Reason, status.ErrStatus.Reason)
				}
				if want == namespace.ErrInvalid {
					require.Equal(t, []namespace.Violation{{Type: "FieldValueRequired", Field: "spec", Message: "Required value: x"}}, refused.Causes)
				}
			}
		})
	}
}

// call makes one of the three requests.
func call(ctx context.Context, n *Namespaces, what string) (namespace.Namespace, error) {
	switch what {
	case "get":
		return n.Get(ctx, "a")
	case "status":
		return n.UpdateStatus(ctx, asRead)
	default:
		return n.Finalize(ctx, asRead)
	}
}

var calls = []string{"get", "status", "finalize"}

// A write for which no connection was established was not sent, so it did not happen.
func TestNeverSent(t *testing.T) {
	t.Parallel()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = quietLog
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.invalid"})
	refuseDial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(t.TempDir(), "nothing"))
	}
	unnamed := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: refuseDial}}
	for name, config := range map[string]*rest.Config{
		"nothing listens": {Host: "http://a.invalid", Dial: refuseDial},
		"no such host":    {Host: "http://a.invalid", Dial: unnamed.DialContext},
		"not trusted":     {Host: untrusted.URL},
		"no TLS":          {Host: "https://" + plain.Listener.Addr().String()},
		"no proxy":        {Host: "http://a.invalid", Proxy: proxy, Dial: refuseDial},
		"no proxy to TLS": {Host: "https://a.invalid", Proxy: proxy, Dial: refuseDial},
	} {
		config.QPS = -1
		n := over(t, config)
		for _, what := range calls {
			_, err := call(t.Context(), n, what)
			require.NoError(t, kindOf(t, err), "%s, %s: %v", name, what, err)
		}
	}
}

// A write whose answer is lost may have happened. The caller has to read.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	n := serving(t, noAnswer)
	for _, what := range []string{"status", "finalize"} {
		_, err := call(t.Context(), n, what)
		require.Equal(t, namespace.ErrUnknownOutcome, kindOf(t, err), err)
		require.ErrorIs(t, err, io.EOF)
	}
}

// If the context ends while the client waits for the answer, the outcome of a write is unknown,
// and the error contains the cause.
func TestEndOfContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for _, what := range calls {
		ctx, cancel := context.WithCancelCause(t.Context())
		n := serving(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // without this, the server does not notice that the client disconnects
			cancel(stop)
			<-r.Context().Done()
		})
		_, err := call(ctx, n, what)
		require.ErrorIs(t, err, stop, what)
		if what == "get" {
			require.NoError(t, kindOf(t, err))
		} else {
			require.Equal(t, namespace.ErrUnknownOutcome, kindOf(t, err), what)
		}
		_, err = call(ctx, n, what) // the context has ended before the call
		require.Equal(t, stop, err, what)
	}
}

// A request to a server that never answers is abandoned.
func TestSilentServer(t *testing.T) {
	for _, what := range calls {
		synctest.Test(t, func(t *testing.T) {
			n := namespacesOver(&fakeClient{
				get: func(ctx context.Context) (*corev1.Namespace, error) { <-ctx.Done(); return nil, ctx.Err() },
				put: func(ctx context.Context, _ *corev1.Namespace) (*corev1.Namespace, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			})
			began := time.Now()
			_, err := call(t.Context(), n, what)
			require.ErrorIs(t, err, errTimeout)
			require.Equal(t, requestTimeout, time.Since(began))
			require.Equal(t, what != "get", errors.Is(err, namespace.ErrUnknownOutcome))
		})
	}
}

func TestBadInputOfNamespaces(t *testing.T) {
	t.Parallel()
	n := namespacesOver(&fakeClient{}) // panics if it is called
	named := func(name string) namespace.Namespace {
		ns := asRead
		ns.Name = name
		return ns
	}
	refuse := func(_ namespace.Namespace, err error) {
		t.Helper()
		require.Equal(t, namespace.ErrBadRequest, kindOf(t, err))
	}
	for _, name := range []string{"", ".", "..", "a/b", "a%2Fb", "/"} {
		_, err := n.Get(t.Context(), name)
		refuse(asRead, err)
		refuse(n.UpdateStatus(t.Context(), named(name)))
		refuse(n.Finalize(t.Context(), named(name)))
	}
	// An API server treats these preconditions as absent.
	for _, unconditional := range []namespace.Namespace{
		{Meta: namespace.Meta{Name: "a", UID: "u"}}, {Meta: namespace.Meta{Name: "a", ResourceVersion: "7"}}, {Meta: namespace.Meta{Name: "a"}},
	} {
		refuse(n.UpdateStatus(t.Context(), unconditional))
		refuse(n.Finalize(t.Context(), unconditional))
	}
	_, err := n.UpdateStatus(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: "a"}})
	require.EqualError(t, err, `write the status of namespace "a": uid and resourceVersion are required, or the write would be unconditional`)
}

// A client that returns neither an object nor an error is reported.
func TestClientWithoutAnswers(t *testing.T) {
	t.Parallel()
	n := namespacesOver(&fakeClient{
		get: func(context.Context) (*corev1.Namespace, error) { return nil, nil },
		put: func(context.Context, *corev1.Namespace) (*corev1.Namespace, error) { return nil, nil },
	})
	for _, what := range calls {
		_, err := call(t.Context(), n, what)
		require.ErrorContains(t, err, "the response is not namespace", what)
	}
}

// The answer to a write must have the uid of the written incarnation. Otherwise the outcome is
// unknown.
func TestR8_AnswerOfAnotherIncarnation(t *testing.T) {
	t.Parallel()
	n := serving(t, answerText(200, "application/json", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a","uid":"another"}}`))
	for _, what := range []string{"status", "finalize"} {
		_, err := call(t.Context(), n, what)
		require.Equal(t, namespace.ErrUnknownOutcome, kindOf(t, err), what)
		require.ErrorContains(t, err, `with uid "another", not "u"`)
	}
	ns, err := n.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "another", ns.UID)
}

// The client remembers that it saw an incarnation, and that it is gone.
func TestReadsAreRemembered(t *testing.T) {
	t.Parallel()
	n := serving(t, func(w http.ResponseWriter, r *http.Request) {
		k := toKubernetes(asRead)
		k.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		if strings.HasSuffix(r.URL.Path, "/finalize") {
			k.Spec.Finalizers = nil
		}
		k.Kind, k.APIVersion = "Namespace", "v1"
		answerJSON(w, 200, k)
	})
	before := time.Now()
	_, err := n.Get(t.Context(), "a")
	require.NoError(t, err)
	key := incarnationKey{"a", "u"}
	read := n.incarnations.known[key].terminatingAt
	require.True(t, read.After(before))
	_, err = n.UpdateStatus(t.Context(), asRead)
	require.NoError(t, err)
	require.True(t, n.incarnations.known[key].terminatingAt.After(read))
	_, err = n.Finalize(t.Context(), asRead)
	require.NoError(t, err)
	require.Zero(t, n.incarnations.known[key].terminatingAt)
}

func ExampleNamespaces_errors() {
	client := &fakeClient{get: func(context.Context) (*corev1.Namespace, error) {
		return nil, apierrors.NewNotFound(theNamespaces, "a")
	}}
	_, err := namespacesOver(client).Get(context.Background(), "a")
	fmt.Println(err)
	fmt.Println(errors.Is(err, namespace.ErrNotFound), apierrors.IsNotFound(err))
	// Output:
	// namespaces "a" not found
	// true true
}

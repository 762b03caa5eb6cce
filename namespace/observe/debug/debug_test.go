package debug_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/phase"
)

func TestBadInput(t *testing.T) {
	p := newPlace()
	for name, make := range map[string]func() (*debug.Handler, error){
		"no namespaces":     func() (*debug.Handler, error) { return debug.New(nil, p, nil) },
		"no explainer":      func() (*debug.Handler, error) { return debug.New(p, nil, nil) },
		"negative interval": func() (*debug.Handler, error) { return debug.New(p, p, &debug.Options{Interval: -1}) },
		"negative patience": func() (*debug.Handler, error) { return debug.New(p, p, &debug.Options{Patience: -1}) },
		"negative rows":     func() (*debug.Handler, error) { return debug.New(p, p, &debug.Options{Rows: -1}) },
		"negative viewers":  func() (*debug.Handler, error) { return debug.New(p, p, &debug.Options{Viewers: -1}) },
	} {
		t.Run(name, func(t *testing.T) {
			h, err := make()
			require.Nil(t, h)
			require.ErrorIs(t, err, namespace.ErrBadRequest)
		})
	}

	h := newHandler(t, p, p, nil)
	for _, c := range []struct {
		target string
		status int
	}{
		{"/?namespace=%zz", http.StatusBadRequest},
		{"/?a;b", http.StatusBadRequest},
		{"/?format=xml", http.StatusBadRequest},
		{"/?namespace=nobody", http.StatusNotFound},
		{"/?namespace=%ff", http.StatusNotFound},
		{"/?namespace=" + strings.Repeat("a", 2000), http.StatusNotFound},
		{"/?namespace=..%2f..%2fetc%2fpasswd", http.StatusNotFound},
		{"/?namespace=%00", http.StatusNotFound},
		{"/?namespace=nobody&format=json", http.StatusNotFound},
		{"/?namespace=nobody&format=text", http.StatusNotFound},
		{"/?namespace=", http.StatusOK},
	} {
		require.Equal(t, c.status, get(h, c.target).Code, c.target)
	}
}

func TestMethods(t *testing.T) {
	p := newPlace(going("one", time.Now()))
	h := newHandler(t, p, p, nil)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "GOT"} {
		w := ask(h, method, "/?namespace=one")
		require.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
		require.Equal(t, "GET, HEAD", w.Header().Get("Allow"), method)
	}
	for _, target := range []string{"/", "/?namespace=one", "/?format=json", "/?format=text", "/?namespace=one&format=json"} {
		whole, head := get(h, target), ask(h, http.MethodHead, target)
		require.Equal(t, whole.Code, head.Code, target)
		require.Equal(t, whole.Header().Get("Content-Type"), head.Header().Get("Content-Type"), target)
		require.NotEmpty(t, head.Header().Get("Content-Length"))
		require.Zero(t, head.Body.Len(), target)
	}
	head := ask(h, http.MethodHead, "/?format=events") // returns at once
	require.Equal(t, "text/event-stream", head.Header().Get("Content-Type"))
}

// The handler ignores the path, so no path leads elsewhere.
func TestPaths(t *testing.T) {
	p := newPlace(going("one", time.Now()))
	h := newHandler(t, p, p, nil)
	for _, path := range []string{"/", "/debug/namespaces/", "/debug/namespaces", "//evil.example.com/", "/a/..;/b", "/%2e%2e/%2e%2e/etc/passwd", "/x%00y"} {
		w := get(h, path)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.NotContains(t, w.Body.String(), "evil.example.com")
		require.NotContains(t, w.Body.String(), "passwd")
		for _, link := range links(w.Body.String()) {
			require.True(t, strings.HasPrefix(link, "?"), "%s: the link %q is not relative to wherever the page is", path, link)
		}
		require.Contains(t, get(h, path+"?namespace=one").Body.String(), "widgets.example.com cannot be listed", path)
	}
}

func links(page string) (all []string) {
	for _, m := range regexp.MustCompile(`<a href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		all = append(all, strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	return all
}

func TestHeaders(t *testing.T) {
	p := newPlace(going("one", time.Now()))
	h := newHandler(t, p, p, nil)
	nonces := map[string]bool{}
	for range 3 {
		w := get(h, "/")
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		policy := w.Header().Get("Content-Security-Policy")
		m := regexp.MustCompile(`^default-src 'none'; style-src 'nonce-(.{24})'; script-src 'nonce-(.{24})'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$`).FindStringSubmatch(policy)
		require.NotNil(t, m, policy)
		require.Equal(t, m[1], m[2])
		require.Equal(t, 2, strings.Count(w.Body.String(), `nonce="`))
		nonces[m[1]] = true
		require.NotRegexp(t, `(?i)(src|href)="(https?:)?//`, w.Body.String(), "something comes from elsewhere")
		require.NotRegexp(t, `\son\w+="|\sstyle="`, w.Body.String(), "the policy forbids it")
	}
	require.Len(t, nonces, 3, "a nonce was used twice")
	require.Equal(t, "nosniff", get(h, "/?format=json").Header().Get("X-Content-Type-Options"))
	require.Equal(t, "nosniff", ask(h, "POST", "/").Header().Get("X-Content-Type-Options"))
}

func TestHostileNames(t *testing.T) {
	d := going(hostile, time.Now())
	d.Holders = []explain.Holder{{Finalizer: `"><script>alert(3)</script>`, Contact: "javascript:alert(4)"}}
	d.Objects = []explain.Objects{{Resource: "<blink>", Sample: []string{"</td>", "\u202e"}, HeldBy: []explain.HeldBy{{Holder: phase.Holder{Finalizer: "'", Sample: []string{"<i>"}}}}}}
	d.Failures = []explain.Failure{{Source: "<u>", Text: "</script><script>alert(5)</script>\xff"}}
	d.Passes = []explain.Pass{{Outcome: `"<svg onload=alert(6)>`, Error: "<x>"}}
	d.Causes[0].Remedy.Command = "kubectl get '<y>'"
	d.Next = &explain.Next{At: time.Now().Add(time.Hour), Reason: `" onmouseover="alert(7)`}
	p := newPlace(d)
	h := newHandler(t, p, p, &debug.Options{
		Title: "<title>",
		Parties: func(context.Context) ([]parties.Party, error) {
			return []parties.Party{{Finalizer: "<p>", Instances: []parties.Instance{{Label: "<l>"}}}}, nil
		},
		Records: func(context.Context, string) ([]audit.Record, error) {
			return []audit.Record{{ID: `"<id>`, By: "<by>", Reason: "<reason>", Detail: "<detail>", Changes: []audit.Change{{Key: "<key>", New: "<new>"}}}}, nil
		},
	})
	for _, target := range []string{"/", "/?namespace=" + url.QueryEscape(hostile)} {
		w := get(h, target)
		require.Equal(t, http.StatusOK, w.Code)
		page := w.Body.String()
		require.Equal(t, 1, strings.Count(page, "<script"), target)
		require.Equal(t, 1, strings.Count(page, "</script"), target)
		for _, tag := range []string{"<blink>", "<i>", "<u>", "<x>", "<y>", "<l>", "<by>", "<key>", "<new>", "<id>", "<reason>", "<detail>", "<svg onload", "onmouseover=\"", "href=\"javascript:"} {
			require.NotContains(t, page, tag, target)
		}
		for _, r := range "\u202e\u2066\x00" {
			require.NotContains(t, page, string(r), "%s: %U is not written out", target, r)
		}
		require.Contains(t, page, `\u202egnp.exe`)
	}
	link := links(get(h, "/").Body.String())[0]
	query, err := url.ParseQuery(strings.TrimPrefix(link, "?"))
	require.NoError(t, err)
	require.Equal(t, url.Values{"namespace": {hostile}}, query, "the link leads elsewhere")

	for _, target := range []string{"/?format=text", "/?format=text&namespace=" + url.QueryEscape(hostile)} {
		for _, r := range "\u202e\u2066\x00\x1b" {
			require.NotContains(t, get(h, target).Body.String(), string(r), "%s: %U is not written out", target, r)
		}
	}
}

// The text of a namespace lists declarations.
func TestTextOfRecords(t *testing.T) {
	p := newPlace(going("one", time.Now()))
	h := newHandler(t, p, p, &debug.Options{Records: func(context.Context, string) ([]audit.Record, error) {
		return []audit.Record{{Action: audit.Declared, Detail: "cut", Changes: []audit.Change{
			{Key: "a", New: "x"}, {Key: "b", Old: "x", New: "y"}, {Key: "c", Old: "x"},
		}}}, nil
	}})
	require.Contains(t, get(h, "/?format=text&namespace=one").Body.String(), "set a, changed b, removed c, cut\n")
}

// The page of a namespace shows the whole diagnosis.
func TestPageOfTheWholeDiagnosis(t *testing.T) {
	d := going("one", time.Now())
	d.Notes = []string{"parties are unknown"}
	d.Causes = []explain.Cause{{Kind: explain.Held, Summary: "held", Remedy: explain.Remedy{Template: "kubectl annotate <BY>"}}}
	p := newPlace(d)
	page := get(newHandler(t, p, p, nil), "/?namespace=one").Body.String()
	require.Contains(t, page, "parties are unknown")
	require.Contains(t, page, "kubectl annotate &lt;BY&gt;")
}

func TestIndex(t *testing.T) {
	place, options := scene(time.Now())
	h := newHandler(t, place, place, options)
	var got struct {
		Active, Terminating, OnHold int
		Namespaces                  []struct {
			Name, UID, Stage string
			Since            time.Time
			Cause            struct{ Kind string }
			Causes           int
		}
		Holds   []struct{ Name string }
		Parties []struct{ Finalizer string }
		Notes   []string
	}
	w := get(h, "/?format=json")
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, [3]int{1284, 7, 2}, [3]int{got.Active, got.Terminating, got.OnHold})
	require.Empty(t, got.Notes)
	var names []string
	for i, n := range got.Namespaces {
		names = append(names, n.Name)
		if i > 0 {
			require.False(t, n.Since.Before(got.Namespaces[i-1].Since), "not the oldest first")
		}
	}
	require.Len(t, names, 7)
	require.Equal(t, []string{"team-payments-staging", "analytics", hostile}, names[:3])
	require.Equal(t, "owner-missing", got.Namespaces[0].Cause.Kind)
	require.Equal(t, 3, got.Namespaces[1].Causes)
	require.Equal(t, "old-wiki", got.Holds[0].Name, "not the next to end first")
	require.Equal(t, "kubernetes", got.Parties[1].Finalizer)

	text := get(h, "/?format=text").Body.String()
	require.Contains(t, text, "1284 active, 7 terminating, 2 on hold at ")
	require.Regexp(t, `(?m)^team-payments-staging +2d 4h +waiting for finalizers +100% +The owner`, text)

	require.Regexp(t, `(?m)^search-index +26m( \ds)? +deleting content +- +The`, text, "it is not known to be done")

	page := get(h, "/").Body.String()
	require.Contains(t, page, `<progress max="100" value="88">`)
	require.Contains(t, page, "318 removed, remaining unknown")
	require.Equal(t, 1, strings.Count(page, "100 %</b>"), "only what is over is")
	require.Contains(t, page, `<span class="tag bad">owner missing</span>`)
	require.Contains(t, page, `and 2 more`)
}

func TestNamespacePage(t *testing.T) {
	place, options := scene(time.Now())
	h := newHandler(t, place, place, options)
	var got struct {
		Diagnosis explain.Diagnosis
		Audit     []audit.Record
	}
	require.NoError(t, json.Unmarshal(get(h, "/?namespace=analytics&format=json").Body.Bytes(), &got))
	require.Equal(t, "analytics", got.Diagnosis.Name)
	require.Len(t, got.Diagnosis.Passes, 32)
	require.Equal(t, []audit.Action{audit.Refused, audit.Forcing, audit.Declared}, []audit.Action{got.Audit[0].Action, got.Audit[1].Action, got.Audit[2].Action})

	page := get(h, "/?namespace=analytics").Body.String()
	require.Equal(t, 32, strings.Count(page, "<rect "), "one column a pass")
	require.Equal(t, 25, strings.Count(page, `<rect class="bad"`))
	require.Contains(t, page, "kubectl get widgets.example.com --namespace analytics")
	require.NotContains(t, page, `<p class="summary">`, "the causes say more")
	text := get(h, "/?namespace=analytics&format=text").Body.String()
	require.Contains(t, text, "reports.example.com has failed 31 times in 3h 11m.")
	require.Regexp(t, `refused +operator@example.com +the cluster it was on is gone`, text)
}

// A page notes the parts that fail, and shows the others.
func TestWhatDoesNotAnswer(t *testing.T) {
	place, options := scene(time.Now())
	fails := errors.New("the <disk> is full")
	options.Parties = func(context.Context) ([]parties.Party, error) { return nil, fails }
	options.Records = func(context.Context, string) ([]audit.Record, error) { panic("no records") }
	h := newHandler(t, place, place, options)
	w := get(h, "/")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "the parties could not be listed: the &lt;disk&gt; is full")
	require.Contains(t, w.Body.String(), "team-payments-staging")
	w = get(h, "/?namespace=analytics")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "the audit records could not be read: it panicked: no records")

	place.failWith(fails)
	h = newHandler(t, place, place, options) // which has counted nothing yet
	w = get(h, "/")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "the list of terminating namespaces is incomplete")
	require.Contains(t, w.Body.String(), "the namespaces could not be counted")
	require.Equal(t, http.StatusInternalServerError, get(h, "/?namespace=analytics").Code)

	place.failWith(&namespace.Error{Kind: namespace.ErrBadRequest, Message: "no such name"})
	require.Equal(t, http.StatusNotFound, get(h, "/?namespace=..").Code)
}

// A panic of the host costs a page, not the process.
func TestPanics(t *testing.T) {
	p := newPlace(going("one", time.Now()))
	p.block = func() { panic("nothing <works>") }
	h := newHandler(t, p, p, nil)
	require.Contains(t, get(h, "/").Body.String(), "it panicked: nothing &lt;works&gt;")
	require.Equal(t, http.StatusInternalServerError, get(h, "/?namespace=one").Code)
}

func TestManyNamespaces(t *testing.T) {
	const many = 12_000
	p := newPlace()
	now := time.Now()
	for i := range many {
		p.set(going(fmt.Sprintf("n%05d", i), now.Add(-time.Duration(i)*time.Second)))
	}
	h := newHandler(t, whole{place: p, active: 1}, p, nil)
	w := get(h, "/")
	require.Equal(t, 100, strings.Count(w.Body.String(), "<progress "))
	require.Less(t, w.Body.Len(), 300_000)
	require.Contains(t, w.Body.String(), "more than 10000 namespaces are terminating; the index only covers the first by name")
	require.Contains(t, w.Body.String(), "12,000", "the count is exact if the place counts")
	gets, explained := p.calls()
	require.Equal(t, [2]int{1000, 100}, [2]int{gets, explained})

	for range 9 { // the ages of all that are listed are known after a while, and read no more
		require.Contains(t, w.Body.String(), "are not known yet")
		w = get(h, "/")
	}
	require.NotContains(t, w.Body.String(), "are not known yet")
	require.Contains(t, w.Body.String(), "n09999")
	before, _ := p.calls()
	get(h, "/")
	after, _ := p.calls()
	require.Equal(t, before, after, "an age was read again")
}

// A reused name is another namespace.
func TestAgeOfAnotherIncarnation(t *testing.T) {
	old := going("one", time.Now().Add(-50*time.Hour))
	p := newPlace(old)
	h := newHandler(t, p, p, nil)
	require.Contains(t, get(h, "/?format=text").Body.String(), "2d 2h")
	again := going("one", time.Now().Add(-10*time.Minute))
	again.UID = "another"
	p.set(again)
	text := get(h, "/?format=text").Body.String()
	require.Contains(t, text, "10m")
	require.NotContains(t, text, "2d 2h")
}

// Changes between the reads of an index leave nothing wrong on it.
func TestBetweenReads(t *testing.T) {
	stale := going("one", time.Now().Add(-50*time.Hour))
	again := going("one", time.Now().Add(-10*time.Minute))
	again.UID = "another"
	active := going("one", time.Now())
	active.UID, active.Phase = "another", phase.Active
	for name, meanwhile := range map[string]func(*place){
		"made again and terminating": func(p *place) { p.set(again) },
		"made again":                 func(p *place) { p.set(active) },
		"gone":                       func(p *place) { p.remove("one") },
	} {
		t.Run(name+" after the listing", func(t *testing.T) {
			p := newPlace(stale)
			p.meantime = func() { meanwhile(p) }
			h := newHandler(t, p, p, nil)
			require.NotContains(t, get(h, "/?format=json").Body.String(), `"name"`)
		})
	}
	t.Run("gone after its age was read", func(t *testing.T) {
		p := newPlace(stale)
		h := newHandler(t, p, removed{p}, nil)
		require.NotContains(t, get(h, "/?format=json").Body.String(), `"name"`)
	})
}

// removed removes a namespace just before explaining it.
type removed struct{ *place }

func (r removed) Explain(ctx context.Context, name string) (explain.Diagnosis, error) {
	r.remove(name)
	return r.place.Explain(ctx, name)
}

func TestNothing(t *testing.T) {
	p := newPlace()
	h := newHandler(t, p, p, nil)
	page := get(h, "/").Body.String()
	require.Contains(t, page, "No namespace is terminating.")
	require.NotContains(t, page, "Active", "they are not counted")
	require.NotContains(t, page, "On hold")
	require.Regexp(t, `(?m)^0 terminating at `, get(h, "/?format=text").Body.String())
}

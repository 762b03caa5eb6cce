package debug_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/phase"
)

// For any name and text, a page contains no foreign markup and no invisible characters, and the
// link to the namespace works.
func FuzzPage(f *testing.F) {
	f.Add(hostile, "</main><script>alert(1)</script>")
	f.Add("one", "javascript:alert(1)")
	f.Add(`' onclick='x`, "\xff\xfe\u200b\u2028{{.}}<!--")
	p := newPlace(going("one", time.Now()))
	h := newHandler(f, p, p, nil)
	tags := regexp.MustCompile(`<[a-zA-Z/!]`)
	usual := len(tags.FindAllString(get(h, "/").Body.String(), -1))
	f.Fuzz(func(t *testing.T, name, text string) {
		if name == "" || len(name) > 1024 || !utf8.ValidString(name) {
			return
		}
		d := going(name, time.Now())
		d.UID, d.Summary = text, text
		d.Causes[0] = explain.Cause{Kind: explain.Kind(text), Source: text, Summary: text, Detail: text, Remedy: explain.Remedy{Text: text, Command: text}}
		d.Passes = []explain.Pass{{Outcome: text, Error: text}}
		d.Failures = []explain.Failure{{Source: text, Text: text}}
		d.Objects = []explain.Objects{{Resource: text, Sample: []string{text}, HeldBy: []explain.HeldBy{{Holder: phase.Holder{Finalizer: text, Sample: []string{text}}}}}}
		p.only(d)
		for _, target := range []string{"/", "/?namespace=" + url.QueryEscape(name)} {
			w := get(h, target)
			require.Equal(t, http.StatusOK, w.Code)
			page := w.Body.String()
			require.Equal(t, 1, strings.Count(strings.ToLower(page), "<script"))
			require.Equal(t, 0, strings.Count(page, "<!--"))
			i := strings.IndexFunc(page, func(r rune) bool {
				return r == utf8.RuneError && !strings.ContainsRune(name+text, r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
			})
			require.Negative(t, i, "something is not seen")
		}
		require.Len(t, tags.FindAllString(get(h, "/").Body.String(), -1), usual, "the page has other markup")
		link, err := url.ParseQuery(strings.TrimPrefix(html.UnescapeString(links(get(h, "/").Body.String())[0]), "?"))
		require.NoError(t, err)
		require.Equal(t, url.Values{"namespace": {name}}, link)
	})
}

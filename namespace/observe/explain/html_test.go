package explain_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/members/parties"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
)

// full is a diagnosis with something in every section.
func full() explain.Diagnosis {
	h := failing(explain.SourceFailed, "widgets.example.com", "list: <b>refused</b>")
	h.Objects = []explain.Objects{podsHeld}
	h.Removed = 1204
	return diagnose(input{
		Namespace: dying("kubernetes", origin), History: h, Now: now, Parties: []parties.Party{party("kubernetes", true), party(origin, false)},
	})
}

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, full().HTML(&b))
	page := b.String()
	for _, want := range []string{
		"<title>namespace shop: Terminating (DeletingContent) for 1h</title>",
		"<strong>the owner of finalizer openshift.com/origin is missing: last seen 2h ago (contact: #team)</strong>",
		"<code>kubectl get widgets.example.com -n shop</code>",
		"list: &lt;b&gt;refused&lt;/b&gt;",
		`<progress max="100" value="99">`,
		"<li>kubernetes: owner alive, last pass 5s ago, contact #team</li>",
		"example.com/drain holds 2 (a, b) since 11:00:00 UTC (1h)",
		"7 times, first 11:10:00 UTC, last 11:59:55 UTC (5s ago)",
		"<p>in 20s at the latest, 12:00:20 UTC (failed)</p>",
		"<td>11:59:54 UTC</td><td>1s</td><td>failed</td>",
	} {
		require.Contains(t, page, want)
	}
	require.NotRegexp(t, `(?i)<script|<link|<img|https?:|style=|\son[a-z]+=|url\(`, page, "nothing is loaded or run")

	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(page)
	require.Len(t, style, 2)
	sum := sha256.Sum256([]byte(style[1]))
	require.Equal(t, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", explain.StyleSource(), "the style as it is in the page")
}

func TestHTMLTellsWhatCannotBeWritten(t *testing.T) {
	broken := errors.New("broken")
	err := full().HTML(failingWriter{broken})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, `"shop"`)
	require.NoError(t, explain.Diagnosis{At: time.Time{}}.HTML(&bytes.Buffer{}))
	require.NotEmpty(t, explain.Diagnosis{}.Text())
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

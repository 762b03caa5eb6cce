package show_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 340 * time.Millisecond: "340ms", 59 * time.Second: "59s", 61 * time.Second: "1m 1s",
		90 * time.Minute: "1h 30m", 25 * time.Hour: "1d 1h", 100*24*time.Hour + time.Hour: "100d", math.MaxInt64: "106,751d",
	} {
		require.Equal(t, want, show.Duration(d))
	}
}

func TestRate(t *testing.T) {
	for r, want := range map[float64]string{0: "0.0/min", 0.01: "0.6/min", 0.5: "0.5/s", 12.4: "12/s", 12345: "12,345/s", math.Inf(1): "1,000,000,000,000,000/s"} {
		require.Equal(t, want, show.Rate(r))
	}
}

func TestDate(t *testing.T) {
	require.Equal(t, "never", show.Date(time.Time{}))
	require.Equal(t, "2026-11-21 12:00:00 UTC", show.Date(time.Date(2026, 11, 21, 13, 0, 0, 0, time.FixedZone("", 3600))))
}

func TestNumber(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 999: "999", 1000: "1,000", -1: "-1", -100: "-100", -1000: "-1,000", 1234567: "1,234,567",
		math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		require.Equal(t, want, show.Number(n))
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 objects", 1: "1 object", 2: "2 objects", 1234: "1,234 objects"} {
		require.Equal(t, want, show.Count(n, "object"))
	}
}

// Wrap breaks lines at 80 columns, and escapes line breaks in the text.
func TestWrap(t *testing.T) {
	var b strings.Builder
	show.Wrap(&b, "a: ", "   ", strings.Repeat("four ", 20)+"x\ny")
	show.Wrap(&b, "b: ", "   ", strings.Repeat("x", 100))
	require.Equal(t, "a: "+strings.Repeat("four ", 14)+"four\n   "+strings.Repeat("four ", 5)+`x\ny`+"\nb: "+strings.Repeat("x", 100)+"\n", b.String())
}

func TestClean(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "plain": "plain", "日本語": "日本語", "a\nb": `a\nb`, "a\tb": `a\tb`, "\x1b[31m": `\x1b[31m`,
		"\u202egnp": `\u202egnp`, "\u2066": `\u2066`, "\u200b": `\u200b`, "\ufeff": `\ufeff`, "\U000e0041": `\U000e0041`,
		"\xff": `\xff`, "\ufffd": `\ufffd`, "a\xc3(": `a\xc3(`, "\u2028": `\u2028`, "\u007f": `\x7f`, "\u0085": `\u0085`,
	} {
		require.Equal(t, want, show.Clean(s), "%q", s)
	}
}

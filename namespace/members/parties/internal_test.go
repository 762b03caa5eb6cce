package parties

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/members/internal/instance"
	"github.com/nslifecycle/nslifecycle/store"
)

// A listing decodes or skips any entry.
func FuzzFold(f *testing.F) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Add("example.com/agent/a", []byte(`{"label":"one","seen":"2026-01-01T00:00:00Z","since":"2026-01-01T00:00:00Z","patience":"30s"}`))
	f.Add("kubernetes/a", []byte(`{"label":"one","seen":"0001-01-01T00:00:00Z","left":true,"patience":"-1s"}`))
	f.Add("//", []byte(`{"seen":"9999-12-31T23:59:59Z","patience":"9999999h"}`))
	f.Add("kubernetes/a", []byte(`{"label":"a\u001b[2J","seen":"2026-01-01T00:00:00Z","contact":"b\n\u0007"}`))
	f.Add("", []byte(`[]`))
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		const prefix = "/registry/.parties/"
		entries := []store.Entry{{Key: prefix + key, Value: data}, {Key: prefix + key + "a", Value: data}}
		parties := fold(entries, prefix, now)
		for _, p := range parties {
			require.NoError(t, p.Finalizer.Validate())
			require.NotEmpty(t, p.Instances)
			require.False(t, p.LastSeen.IsZero())
			latest := time.Time{}
			for _, i := range p.Instances {
				require.Equal(t, p.Alive, i.Alive)
				require.False(t, i.Left && i.Alive)
				require.NoError(t, instance.CheckText("label", i.Label, instance.MaxLabel))
				if i.LastSeen.After(latest) || latest.IsZero() {
					latest = i.LastSeen
				}
			}
			require.True(t, latest.Equal(p.LastSeen))
			require.True(t, p.Alive || len(p.Instances) == 1)
			require.NoError(t, instance.CheckText("contact", p.Contact, maxContact))
			_, err := json.Marshal(p)
			require.NoError(t, err)
		}
	})
}

// A decoded value equals the encoded one.
func TestEntry(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 5e6, time.UTC)
	v := value{Label: "one", Contact: `<"&\`, Since: at, Seen: at.Add(time.Second), Patience: "1m30s", Left: true}
	data, err := v.encode()
	require.NoError(t, err)
	got, ok := decode(data)
	require.True(t, ok)
	require.Empty(t, cmp.Diff(v, got))
	require.Equal(t, 90*time.Second, got.patience())
	for _, odd := range []string{"", "x", "0s", "-1s", "25h", "9999999h"} {
		require.Equal(t, defaultPatience, value{Patience: odd}.patience(), odd)
	}
}

// A value that Announce would refuse is not decoded, because programs print it in terminals.
func TestEntryRefused(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"a\x1b[2J", "a\nb", "\x00", "\x7f", "\u009b2J"} {
		for _, v := range []value{{Label: text, Seen: at}, {Label: "one", Contact: text, Seen: at}} {
			data, err := v.encode()
			require.NoError(t, err)
			_, ok := decode(data)
			require.False(t, ok, "%+q", v)
		}
	}
	for _, v := range []value{
		{Label: strings.Repeat("a", instance.MaxLabel+1), Seen: at}, {Contact: strings.Repeat("a", maxContact+1), Seen: at}, {Label: "one"},
	} {
		data, err := v.encode()
		require.NoError(t, err)
		_, ok := decode(data)
		require.False(t, ok)
	}
}

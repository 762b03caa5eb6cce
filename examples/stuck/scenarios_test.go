package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "update testdata")

// TestScenarios plays every scenario in virtual time and compares the output with testdata.
// The first cause of the first diagnosis must match the scenario's cause, and the remedy
// must work.
func TestScenarios(t *testing.T) {
	all, err := scenarios()
	require.NoError(t, err)
	kept, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.True(t, *update || len(kept) == len(all), "testdata must have one file for each scenario")
	for i, e := range all {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				w, err := newWorld(t.Context())
				require.NoError(t, err)
				defer func() { require.NoError(t, w.close()) }()
				s := player{world: w, tell: &teller{w: &out}, settle: synctest.Wait}
				s.tell.title(i+1, len(all), e)
				require.NoError(t, s.play(e.Steps), "so far:\n%s", &out)
				require.NotEmpty(t, s.seen[0].Causes)
				require.Equal(t, e.Cause, s.seen[0].Causes[0].Kind, "the first cause of\n%s", &out)
				require.NotEmpty(t, s.seen[0].Causes[0].Remedy.Text)
			})
			golden(t, filepath.Join("testdata", e.Name+".txt"), out.String())
		})
	}
}

// masks match text that differs between runs, such as uids and jittered retries.
var masks = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{regexp.MustCompile(`(uid |UID: ")[0-9a-f-]{36}`), "${1}UID"},
	{regexp.MustCompile(`[0-9]{8}T[0-9.]+Z-[0-9a-f]{16}`), "RECORD"},
	{regexp.MustCompile(`\b[0-9,]+ (times?|pass(es)?)\b`), "N $1"},
	{regexp.MustCompile(`last [-0-9: ]+ UTC \([a-z0-9 ]+ ago\)`), "last T"},
	{regexp.MustCompile(`last pass [a-z0-9 ]+ ago`), "last pass T ago"},
	{regexp.MustCompile(`in [a-z0-9 ]+ at the latest, [-0-9: ]+ UTC`), "in T at the latest"},
	{regexp.MustCompile(`[0-9,]+ removed, 12 remaining, [0-9,.]+/(s|min)`), "N removed, 12 remaining"},
}

// paragraphs splits text into masked paragraphs without line breaks.
func paragraphs(text string) []string {
	list := strings.Split(text, "\n\n")
	for i, p := range list {
		list[i] = strings.Join(strings.Fields(p), " ")
		for _, m := range masks {
			list[i] = m.pattern.ReplaceAllString(list[i], m.mask)
		}
	}
	return list
}

// golden compares got with a file, apart from masked text.
func golden(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	diff := cmp.Diff(paragraphs(string(want)), paragraphs(got))
	switch {
	case err == nil && diff == "":
	case *update:
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	default:
		t.Errorf("%s (-want +got); go test ./examples/stuck -update updates it:\n%s", file, diff)
	}
}

package prometheus_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// exportedNames lists all metrics, without the suffixes of histograms.
func exportedNames(t *testing.T) []string {
	e := export(t, agent, nil)
	h, ref := e.Hooks(), namespace.Ref{Name: "a", UID: "1"}
	h.Queued(ref)
	report := deleter.Report{Results: []deleter.Result{{Resource: things(1), Deleted: 1, Err: errors.New("boom")}}}
	h.PassEnded(context.Background(), ref, result(ref, pass.Failed, report), nil, time.Second)
	families, err := e.registry.Gather()
	require.NoError(t, err)
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	return names
}

// namesIn lists the metrics in a text.
func namesIn(text string) []string {
	found := regexp.MustCompile(`\bnamespace_[a-z_]+`).FindAllString(text, -1)
	for i := range found {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			found[i] = strings.TrimSuffix(found[i], suffix)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Dashboard and documentation name exactly the exported metrics, and the alerts only exported
// ones. The tests in internal/rules check more, with Prometheus' own parser and engine.
func TestNamesInFiles(t *testing.T) {
	names := exportedNames(t)
	read := func(file string) string {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(data)
	}
	dashboard := read("dashboard.json")
	require.True(t, json.Valid([]byte(dashboard)))
	require.Equal(t, names, namesIn(dashboard))
	require.Equal(t, names, namesIn(read("doc.go")))
	alerts := namesIn(read("alerts.yaml"))
	require.NotEmpty(t, alerts)
	require.Subset(t, names, alerts)
}

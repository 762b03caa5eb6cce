package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
)

func TestMain(m *testing.M) { programs.Main(m, main) }

func TestConduct(t *testing.T) {
	data := filepath.Join(t.TempDir(), "quickstart.db")
	programs.Conduct{Args: []string{"--data", data, "--objects", "1000000"}, Ready: "created"}.Check(t)
}

// The parties work in parallel, so only the order of some lines is fixed.
func TestStory(t *testing.T) {
	data := filepath.Join(t.TempDir(), "quickstart.db")
	for _, round := range []string{"on a new file", "again on the same file"} {
		t.Run(round, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), &out, []string{"--data", data}))
			for _, line := range []string{
				`openshift.com/origin: deleted 100 builds.openshift.com`, `openshift.com/origin: deleted 100 routes.openshift.com`,
				`openshift.com/origin: no content left, finalizer removed`, `kubernetes: deleted 100 pods`, `kubernetes: no content left, finalizer removed`,
			} {
				require.Equal(t, 1, strings.Count(out.String(), line), "%s\n%s", line, &out)
			}
			require.Regexp(t, `(?s)^ +[0-9.]+ ms  namespace development created: Active, finalizers \["openshift.com/origin" "kubernetes"\]
 +[0-9.]+ ms  300 objects of 3 types exist
 +[0-9.]+ ms  DELETE namespace development
.*create refused: events "intruder-.*" is forbidden: unable to create new content in namespace development because it is being terminated
.*namespace development removed, 0 objects left
$`, out.String())
		})
	}
}

// A run that is killed at a random point can be restarted on the same file.
func TestKilledAnywhere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := filepath.Join(t.TempDir(), "quickstart.db")
	killed := 0
	for range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(150*time.Millisecond))))
		p := programs.Self(t, "--data", data, "--objects", "500")
		context.AfterFunc(ctx, p.Kill)
		if code, stderr := p.Exit(); code != 0 {
			require.Error(t, ctx.Err(), "failed before it was killed:\n%s", stderr)
			killed++
		}
		cancel()
	}
	t.Logf("killed %d times", killed)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"--data", data, "--objects", "500"}))
	require.Contains(t, out.String(), "namespace development removed, 0 objects left")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.ErrorIs(t, run(ctx, &out, []string{"--data", filepath.Join(t.TempDir(), "q.db")}), context.Canceled)
}

func TestBadInput(t *testing.T) {
	var out bytes.Buffer
	require.ErrorContains(t, run(t.Context(), &out, []string{"--objects", "-1"}), "--objects is -1")
	require.ErrorContains(t, run(t.Context(), &out, []string{"--data", t.TempDir()}), "--data: ")
	require.Empty(t, out.String())
}

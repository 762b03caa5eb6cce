package clients

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

// kubectlPaths names the kubectl programs to test with, separated by ':'. Default:
// the one on PATH.
const kubectlPaths = "NSLIFECYCLE_KUBECTL"

// kubectl is one program.
type kubectl struct {
	path  string
	minor int // 32 is v1.32
}

// kubectls returns the programs to test with.
func kubectls(t *testing.T) []kubectl {
	t.Helper()
	paths := filepath.SplitList(os.Getenv(kubectlPaths))
	if len(paths) == 0 {
		path, err := exec.LookPath("kubectl")
		if err != nil {
			missing(t, "no kubectl found: install it (Debian: apt-get install kubernetes-client), or name programs in "+kubectlPaths)
		}
		paths = []string{path}
	}
	var all []kubectl
	for _, path := range paths {
		path, err := filepath.Abs(path)
		require.NoError(t, err)
		k := kubectl{path: path}
		out, err := exec.Command(path, "version", "--client", "-o", "json").Output()
		require.NoError(t, err, "%s", path)
		var answer struct {
			ClientVersion struct{ Major, Minor string }
		}
		require.NoError(t, json.Unmarshal(out, &answer))
		require.Equal(t, "1", answer.ClientVersion.Major)
		k.minor, err = strconv.Atoi(strings.TrimRight(answer.ClientVersion.Minor, "+"))
		require.NoError(t, err)
		all = append(all, k)
	}
	return all
}

// TestKubectl runs the scripts of testdata/kubectl with the stock kubectl, each with its own
// server. In addition to the commands of testscript there are
//
//	[!] kubectl ARGS... [< FILE]  masks the parts of the output that vary between runs
//	watch NAME ARGS...            starts a kubectl in the background
//	see NAME REGEXP               waits until its output matches
//	until NAME REGEXP ARGS...     runs kubectl until the output of NAME matches
//	done NAME                     waits until it succeeds; its masked output becomes
//	                              stdout
//	unwatch NAME                  ends it; its masked output becomes stdout
//	guarded                       starts a second server, see guarded_test.go
//
// and the conditions [v1.N] and [v1.N+], about the version of kubectl.
func TestKubectl(t *testing.T) {
	for _, k := range kubectls(t) {
		t.Run(fmt.Sprintf("v1.%d", k.minor), func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:           filepath.Join("testdata", "kubectl"),
				Setup:         k.setup,
				Condition:     k.condition,
				UpdateScripts: *update,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"kubectl": runKubectl,
					"watch":   startWatch,
					"see":     seeWatch,
					"until":   tryWatch,
					"done":    awaitWatch,
					"unwatch": endWatch,
					"guarded": startGuarded,
				},
			})
		})
	}
}

// setup starts a server and puts this kubectl on PATH.
func (k kubectl) setup(env *testscript.Env) error {
	h, err := plan{}.open()
	if err != nil {
		return err
	}
	env.Defer(func() {
		if err := h.stop(); err != nil {
			env.T().Fatal("the server ended with ", err)
		}
	})
	bin := filepath.Join(env.WorkDir, ".bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(k.path, filepath.Join(bin, "kubectl")); err != nil {
		return err
	}
	kubeconfig := filepath.Join(env.WorkDir, ".kubeconfig")
	env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, ".home")) // kubectl keeps a cache there
	env.Setenv("KUBECONFIG", kubeconfig)
	env.Setenv("SERVER", h.address)
	env.Setenv("LANG", "C")
	env.Values[watches{}] = map[string]*follower{}
	return h.kubeconfig(kubeconfig)
}

// condition evaluates [v1.32] and [v1.32+].
func (k kubectl) condition(text string) (bool, error) {
	minor, ok := strings.CutPrefix(text, "v1.")
	minor, open := strings.CutSuffix(minor, "+")
	n, err := strconv.Atoi(minor)
	if !ok || err != nil {
		return false, fmt.Errorf("unknown condition %q", text)
	}
	return k.minor == n || open && k.minor > n, nil
}

// tooLong ends a script. No command takes that long.
const tooLong = time.Minute

// command returns the kubectl command of a script.
func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(ts.Getenv("WORK"), ".bin", "kubectl"), args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "KUBECONFIG", "LANG", "TMPDIR", "KUBE_EDITOR", "KUBECTL_EXTERNAL_DIFF", "WORK"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

func runKubectl(ts *testscript.TestScript, neg bool, args []string) {
	var out, fault strings.Builder
	var in string
	if n := len(args) - 2; n > 0 && args[n] == "<" {
		args, in = args[:n], ts.ReadFile(args[n+1])
	}
	cmd := command(ts, args)
	cmd.Stdin = strings.NewReader(in)
	cmd.Stdout, cmd.Stderr = &out, &fault
	defer time.AfterFunc(tooLong, func() { _ = cmd.Process.Kill() }).Stop()
	err := cmd.Run()
	fmt.Fprint(ts.Stdout(), masked(ts, out.String()))
	fmt.Fprint(ts.Stderr(), masked(ts, fault.String()))
	switch {
	case err != nil && !neg:
		ts.Fatalf("kubectl: %v\n%s%s", err, &out, &fault)
	case err == nil && neg:
		ts.Fatalf("kubectl succeeded:\n%s", &out)
	}
}

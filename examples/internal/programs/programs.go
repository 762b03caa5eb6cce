// Package programs runs the example programs as processes, for tests: so that they
// can be killed, and heard.
package programs

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// AsProgram is the environment variable that makes a test binary its program.
const AsProgram = "NSLIFECYCLE_TEST_RUNS_THE_PROGRAM"

// Main is what TestMain calls: it runs the tests, or main where the binary was
// started by [Self]. It does not return.
func Main(m *testing.M, main func()) { os.Exit(Run(m, main)) }

// Run is like Main but returns the exit code, for tests that clean up afterwards.
func Run(m *testing.M, main func()) int {
	if os.Getenv(AsProgram) != "" {
		main()
		os.Exit(0)
	}
	flag.Parse() // as Run does
	if few := 6; runtime.GOMAXPROCS(0) < few {
		_ = flag.Set("test.parallel", strconv.Itoa(few)) // such tests wait more than they work
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // it is in the system's place for such
	}
	return code
}

// Self starts the program whose test this is.
func Self(t *testing.T, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	// Neither the kubeconfig nor the data of the user who runs the tests.
	cmd.Env = append(os.Environ(), AsProgram+"=1", "KUBECONFIG="+os.DevNull, "XDG_STATE_HOME="+t.TempDir())
	return Start(t, cmd)
}

// built is the program examples/apiserver, once a test has asked for it.
var built struct {
	sync.Once
	dir string
	err error
}

// APIServer returns the program examples/apiserver, which it builds once for all tests
// of a binary.
func APIServer(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "nslifecycle-test-"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", built.dir, "github.com/nslifecycle/nslifecycle/examples/apiserver").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, built.err)
	return filepath.Join(built.dir, "apiserver")
}

// Process is a program that runs, and what it says.
type Process struct {
	cmd   *exec.Cmd
	fault bytes.Buffer // written until the process has ended

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with every line, and at the end
	ended bool

	wait func() error // for the end, once
}

// Start starts a program. It is killed when the test ends.
func Start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, more: make(chan struct{})}
	cmd.Stderr = &p.fault
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.hear(lines.Text(), false)
		}
		p.hear("", true)
	}()
	p.wait = sync.OnceValue(func() error {
		<-heard
		return cmd.Wait()
	})
	t.Cleanup(p.Kill)
	return p
}

func (p *Process) hear(line string, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = end; !end {
		p.lines = append(p.lines, line)
	}
	close(p.more)
	p.more = make(chan struct{})
}

// Until waits until the process has said something, a regular expression, and
// returns the line.
func (p *Process) Until(t *testing.T, want string) string {
	t.Helper()
	return p.Again(t, want, 1)
}

// Again waits until the process has said something for the nth time.
func (p *Process) Again(t *testing.T, want string, n int) string {
	t.Helper()
	pattern := regexp.MustCompile(want)
	for {
		p.mu.Lock()
		lines, more, ended := p.lines, p.more, p.ended
		p.mu.Unlock()
		found := 0
		for _, line := range lines {
			if pattern.MatchString(line) {
				if found++; found == n {
					return line
				}
			}
		}
		if ended {
			_ = p.wait()
			t.Fatalf("it said %s %d times, not %d:\n%s\n%s", want, found, n, strings.Join(lines, "\n"), &p.fault)
		}
		<-more
	}
}

// Said returns everything so far.
func (p *Process) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n") + "\n"
}

// Exit waits for the end of the process, and returns its exit code (-1: it was
// killed) and what it has written to standard error.
func (p *Process) Exit() (code int, fault string) {
	_ = p.wait() // the code says it
	return p.cmd.ProcessState.ExitCode(), p.fault.String()
}

// Signal sends a signal.
func (p *Process) Signal(t *testing.T, signal os.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(signal))
}

// Kill ends the process as a crash would, and waits until all was heard.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.wait()             // it was killed, or has been waited for
}

// ID returns the process id.
func (p *Process) ID() int { return p.cmd.Process.Pid }

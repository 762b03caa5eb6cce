// Package programs runs the example programs as processes in tests.
package programs

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// asProgram is the environment variable that makes a test binary run the program.
const asProgram = "NSLIFECYCLE_TEST_RUNS_THE_PROGRAM"

// Main is for TestMain. It runs the tests, or main in a process started by [Self]. It does not
// return.
func Main(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	flag.Parse() // as m.Run does
	if few := 6; runtime.GOMAXPROCS(0) < few {
		_ = flag.Set("test.parallel", strconv.Itoa(few)) // these tests mostly wait
	}
	os.Exit(m.Run())
}

// Self starts the program under test.
func Self(t *testing.T, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	// Do not use the kubeconfig and the data of the user.
	cmd.Env = append(os.Environ(), asProgram+"=1", "KUBECONFIG="+os.DevNull, "XDG_STATE_HOME="+t.TempDir())
	return Start(t, cmd)
}

// Process is a running program and its output.
type Process struct {
	cmd   *exec.Cmd
	fault bytes.Buffer // complete after the process has ended

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with every line, and at the end
	ended bool

	wait func() error
}

// Start starts a program. It is killed when the test ends.
func Start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, more: make(chan struct{})}
	cmd.Stderr = &p.fault
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.add(lines.Text(), false)
		}
		p.add("", true)
	}()
	p.wait = sync.OnceValue(func() error {
		<-read
		return cmd.Wait()
	})
	t.Cleanup(p.Kill)
	return p
}

func (p *Process) add(line string, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = end; !end {
		p.lines = append(p.lines, line)
	}
	close(p.more)
	p.more = make(chan struct{})
}

// Until waits for a line of output that matches a regular expression, and returns it.
func (p *Process) Until(t *testing.T, want string) string {
	t.Helper()
	pattern := regexp.MustCompile(want)
	for {
		p.mu.Lock()
		lines, more, ended := p.lines, p.more, p.ended
		p.mu.Unlock()
		for _, line := range lines {
			if pattern.MatchString(line) {
				return line
			}
		}
		if ended {
			_ = p.wait()
			t.Fatalf("no line matches %s:\n%s\n%s", want, strings.Join(lines, "\n"), &p.fault)
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

// Exit waits for the end of the process and returns its exit code, -1 if it was killed, and its
// standard error.
func (p *Process) Exit() (code int, fault string) {
	_ = p.wait() // see the code
	return p.cmd.ProcessState.ExitCode(), p.fault.String()
}

func (p *Process) Signal(t *testing.T, signal os.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(signal))
}

// Kill kills the process, as a crash would, and waits for its output.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.wait()             // expected after Kill
}

// ID returns the process id.
func (p *Process) ID() int { return p.cmd.Process.Pid }

package agent

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asCommand makes the test binary run the command.
const asCommand = "NSLIFECYCLE_TEST_RUNS_THE_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	flag.Parse() // as m.Run does
	if few := 6; runtime.GOMAXPROCS(0) < few {
		_ = flag.Set("test.parallel", strconv.Itoa(few)) // these tests mostly wait
	}
	code := m.Run()
	if apiserver.dir != "" {
		_ = os.RemoveAll(apiserver.dir)
	}
	os.Exit(code)
}

// apiserver is the program examples/apiserver, built once.
var apiserver struct {
	sync.Once
	dir string
	err error
}

func startAPIServer(t *testing.T, args ...string) *process {
	t.Helper()
	apiserver.Do(func() {
		if apiserver.dir, apiserver.err = os.MkdirTemp("", "nslifecycle-test-"); apiserver.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", apiserver.dir, "./apiserver")
		build.Dir = filepath.Join("..", "..", "..", "examples")
		if out, err := build.CombinedOutput(); err != nil {
			apiserver.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, apiserver.err)
	return start(t, exec.Command(filepath.Join(apiserver.dir, "apiserver"), args...))
}

// startAgent starts the command as a process.
func startAgent(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "KUBECONFIG="+os.DevNull)
	return start(t, cmd)
}

// process is a running program and its output.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer // complete after wait

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with every line, and at the end
	ended bool

	wait func() error
}

// start starts cmd and kills it when the test ends.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, more: make(chan struct{})}
	cmd.Stderr = &p.stderr
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
	t.Cleanup(p.kill)
	return p
}

func (p *process) add(line string, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = end; !end {
		p.lines = append(p.lines, line)
	}
	close(p.more)
	p.more = make(chan struct{})
}

// until waits for a line of output that matches a regular expression.
func (p *process) until(t *testing.T, pattern string) string {
	t.Helper()
	return p.nth(t, pattern, 1)
}

// nth waits for the nth line of output that matches a regular expression.
func (p *process) nth(t *testing.T, pattern string, n int) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		p.mu.Lock()
		lines, more, ended := p.lines, p.more, p.ended
		p.mu.Unlock()
		found := 0
		for _, line := range lines {
			if re.MatchString(line) {
				if found++; found == n {
					return line
				}
			}
		}
		if ended {
			_ = p.wait()
			t.Fatalf("%d lines match %s, want %d:\n%s\n%s", found, pattern, n, strings.Join(lines, "\n"), &p.stderr)
		}
		<-more
	}
}

// output returns the standard output so far.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n") + "\n"
}

// exit waits for the process to end and returns its exit code, -1 if it was killed, and its
// standard error.
func (p *process) exit() (code int, stderr string) {
	_ = p.wait() // see the code
	return p.cmd.ProcessState.ExitCode(), p.stderr.String()
}

func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(signal))
}

// kill kills the process, as a crash would, and waits for its output.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.wait()
}

// stop ends an agent gracefully.
func stop(t *testing.T, agent *process) {
	t.Helper()
	agent.signal(t, syscall.SIGTERM)
	code, stderr := agent.exit()
	require.Zero(t, code, stderr)
	require.Contains(t, agent.output(), "\nstopped\n")
	require.Empty(t, stderr)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code, args := range map[int][]string{
		0: {"--help"},
		1: {"--kubeconfig", "/dev/null/file"},
		2: {"--workers", "1"},
	} {
		p := startAgent(t, args...)
		got, stderr := p.exit()
		require.Equal(t, code, got, "%v: %s", args, stderr)
		if code == 0 {
			require.Regexp(t, "^Nslifecycle-agent deletes the content of terminating namespaces", p.output())
			require.Contains(t, p.output(), "\n  -lease-duration time\n")
			continue
		}
		require.Equal(t, "\n", p.output())
		require.Regexp(t, "^nslifecycle-agent: --", stderr)
	}
	p := startAgent(t, "--server", "http://127.0.0.1:1")
	p.until(t, "health and metrics at")
	p.signal(t, os.Interrupt)
	code, stderr := p.exit()
	require.Equal(t, 130, code, stderr)
	require.Empty(t, stderr)
}

func TestBusyPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	code, stderr := startAgent(t, "--server", "http://127.0.0.1:1", "--listen", l.Addr().String()).exit()
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "address already in use")
}

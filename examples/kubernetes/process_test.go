package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
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

// The test binary is the program too, so that it can be killed.
const asProgram = "KUBERNETES_TEST_RUNS_THE_PROGRAM"

// apiserver is the program that the agents work against.
var apiserver = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kubernetes-test-")
	if err != nil {
		return "", err
	}
	built = dir
	program := filepath.Join(dir, "apiserver")
	if out, err := exec.Command("go", "build", "-o", program, "../apiserver").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

// built is the directory that the programs are in.
var built string

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	flag.Parse() // as Run does
	if few := 6; runtime.GOMAXPROCS(0) < few {
		_ = flag.Set("test.parallel", strconv.Itoa(few)) // the tests wait more than they work
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // it is in the system's place for such
	}
	os.Exit(code)
}

// process is a program that runs, and what it says.
type process struct {
	cmd   *exec.Cmd
	fault bytes.Buffer // read it when the process has ended

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with every line, and at the end
	ended bool

	wait func() error // for the end, once
}

func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, more: make(chan struct{})}
	cmd.Stderr = &p.fault
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		p.listen(out)
	}()
	p.wait = sync.OnceValue(func() error {
		<-heard
		return cmd.Wait()
	})
	t.Cleanup(p.kill)
	return p
}

func (p *process) listen(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		p.hear(lines.Text(), false)
	}
	p.hear("", true)
}

func (p *process) hear(line string, end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = end; !end {
		p.lines = append(p.lines, line)
	}
	close(p.more)
	p.more = make(chan struct{})
}

// until waits until the process has said something.
func (p *process) until(t *testing.T, want string) string {
	t.Helper()
	return p.again(t, want, 1)
}

// again waits until the process has said something for the nth time.
func (p *process) again(t *testing.T, want string, n int) string {
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

// said returns everything so far.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n") + "\n"
}

// kill ends the process as a crash would, and waits until all was heard.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.wait()             // it was killed, or has been waited for
}

// stop ends the process in good order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, p.wait(), "%s", &p.fault)
	require.Contains(t, p.said(), "\nstopped\n")
	require.Empty(t, p.fault.String(), "nothing but its own lines")
}

// program is this program as a process.
func program(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "KUBECONFIG="+os.DevNull) // not that of whoever runs the tests
	return launch(t, cmd)
}

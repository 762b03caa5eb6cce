package clients

import (
	"bufio"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// watches is the key of a script's watches by name.
type watches struct{}

// follower is a kubectl that goes on, and what it has said.
type follower struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu   sync.Mutex
	said strings.Builder
	more chan struct{} // closed and replaced with every line
}

func byName(ts *testscript.TestScript) map[string]*follower {
	return ts.Value(watches{}).(map[string]*follower)
}

// startWatch is "watch NAME ARGS...".
func startWatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || byName(ts)[args[0]] != nil {
		ts.Fatalf("usage: watch NAME ARGS..., each name once")
	}
	w := &follower{cmd: command(ts, args[1:]), ended: make(chan struct{}), more: make(chan struct{})}
	out, err := w.cmd.StdoutPipe()
	ts.Check(err)
	w.cmd.Stderr = w.cmd.Stdout
	ts.Check(w.cmd.Start())
	byName(ts)[args[0]] = w
	ts.Defer(func() { w.end() })
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.hear(lines.Text())
		}
		_ = w.cmd.Wait() // it was killed
	}()
}

func (w *follower) hear(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said.WriteString(line + "\n")
	close(w.more)
	w.more = make(chan struct{})
}

func (w *follower) text() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.String(), w.more
}

func (w *follower) end() {
	_ = w.cmd.Process.Kill() // it may have ended
	<-w.ended
}

// seeWatch is "see NAME REGEXP". The deadline of the test bounds it.
func seeWatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || byName(ts)[args[0]] == nil {
		ts.Fatalf("usage: see NAME REGEXP")
	}
	w := byName(ts)[args[0]]
	want, err := regexp.Compile(`(?m)` + args[1])
	ts.Check(err)
	for {
		text, more := w.text()
		if want.MatchString(text) {
			return
		}
		select {
		case <-more:
		case <-w.ended:
			if text, _ = w.text(); !want.MatchString(text) {
				ts.Fatalf("it ended, and never said %s:\n%s", want, text)
			}
		}
	}
}

// endWatch is "unwatch NAME".
func endWatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || byName(ts)[args[0]] == nil {
		ts.Fatalf("usage: unwatch NAME")
	}
	w := byName(ts)[args[0]]
	w.end()
	text, _ := w.text()
	fmt.Fprint(ts.Stdout(), masked(ts, text))
}

// tryWatch is "until NAME REGEXP ARGS...": it runs kubectl ARGS, with the number of
// the attempt for "@", until the watch has said so. For a watch of changes only,
// which does not tell when it has begun.
func tryWatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || byName(ts)[args[0]] == nil {
		ts.Fatalf("usage: until NAME REGEXP ARGS...")
	}
	w := byName(ts)[args[0]]
	want, err := regexp.Compile(`(?m)` + args[1])
	ts.Check(err)
	for i := 0; ; i++ {
		var attempt []string
		for _, arg := range args[2:] {
			attempt = append(attempt, strings.ReplaceAll(arg, "@", strconv.Itoa(i)))
		}
		out, err := command(ts, attempt).CombinedOutput()
		if err != nil {
			ts.Fatalf("kubectl: %v\n%s", err, out)
		}
		if text, _ := w.text(); want.MatchString(text) {
			return
		}
		select {
		case <-w.ended:
			ts.Fatalf("it ended")
		default:
		}
	}
}

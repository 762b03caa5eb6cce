package clients

import (
	"bufio"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// watches is the key of a script's watches by name.
type watches struct{}

// follower is a running kubectl and its output.
type follower struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	result error // after its end

	mu   sync.Mutex
	said strings.Builder
	more chan struct{} // closed and replaced with each line
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
		w.result = w.cmd.Wait()
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

// seeWatch is "see NAME REGEXP".
func seeWatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || byName(ts)[args[0]] == nil {
		ts.Fatalf("usage: see NAME REGEXP")
	}
	w := byName(ts)[args[0]]
	want, err := regexp.Compile(`(?m)` + args[1])
	ts.Check(err)
	late := time.After(tooLong)
	for {
		text, more := w.text()
		if want.MatchString(text) {
			return
		}
		select {
		case <-more:
		case <-late:
			ts.Fatalf("after %v it has not said %s:\n%s", tooLong, want, text)
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
// the attempt for "@", until the output of the watch matches. It is for a watch of changes only,
// whose beginning cannot be seen.
func tryWatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || byName(ts)[args[0]] == nil {
		ts.Fatalf("usage: until NAME REGEXP ARGS...")
	}
	w := byName(ts)[args[0]]
	want, err := regexp.Compile(`(?m)` + args[1])
	ts.Check(err)
	late := time.After(tooLong)
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
		case <-late:
			ts.Fatalf("after %v it has not said %s", tooLong, want)
		case <-w.ended:
			ts.Fatalf("it ended")
		default:
		}
	}
}

// awaitWatch is "done NAME".
func awaitWatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || byName(ts)[args[0]] == nil {
		ts.Fatalf("usage: done NAME")
	}
	w := byName(ts)[args[0]]
	select {
	case <-w.ended:
	case <-time.After(tooLong):
		ts.Fatalf("after %v it has not ended", tooLong)
	}
	text, _ := w.text()
	if w.result != nil {
		ts.Fatalf("it ended with %v:\n%s", w.result, text)
	}
	fmt.Fprint(ts.Stdout(), masked(ts, text))
}

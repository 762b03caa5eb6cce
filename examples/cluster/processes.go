package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// said is what a replica tells its parent: a line of its log.
type said struct {
	Replica   string    `json:"-"`
	Time      time.Time `json:"time"`
	Message   string    `json:"msg"`
	Namespace string    `json:"namespace"`
	Type      string    `json:"type"`
	Member    string    `json:"member"`
	Members   int       `json:"members"`
	Why       string    `json:"why"`
	Taken     int       `json:"taken"`
	Left      int       `json:"left"`
}

// process is a replica in a process of its own.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	ended <-chan struct{}
	heard chan struct{} // closed when everything it said was heard
	fault bytes.Buffer  // what it wrote to standard error
}

// launch starts this program as a replica. What it says is heard by hear, in a
// goroutine of its own.
func launch(b backend, name string, pace []string, hear func(said)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, heard: make(chan struct{})}
	args := append([]string{asReplica, "--store", b.kind, "--address", b.address, "--name", name}, pace...)
	p.cmd = exec.Command(self, args...)
	p.cmd.Stderr = &p.fault
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// A pipe of our own: cmd's would be closed when the process ends, with lines unread.
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = writer
	p.ended, err = start(p.cmd)
	_ = writer.Close() // the child has its own
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	go p.listen(reader, hear)
	return p, nil
}

func (p *process) listen(r io.ReadCloser, hear func(said)) {
	defer close(p.heard)
	defer r.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		s := said{Replica: p.name}
		if json.Unmarshal(lines.Bytes(), &s) == nil { // the last line of one that is killed may be cut
			hear(s)
		}
	}
}

// kill ends the process as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	<-p.heard
	_ = p.stdin.Close()
}

// stop lets the process leave in good order. One that does not is killed when ctx
// ends.
func (p *process) stop(ctx context.Context) error {
	_ = p.stdin.Close()
	select {
	case <-p.ended:
		<-p.heard
	case <-ctx.Done():
		p.kill()
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("replica %s: %v: %s", p.name, p.cmd.ProcessState, bytes.TrimSpace(p.fault.Bytes()))
	}
	return nil
}

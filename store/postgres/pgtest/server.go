package pgtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options tunes a [Server]. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Settings are settings of the server, such as "max_connections": "300".
	Settings map[string]string
	// Access lists lines of pg_hba.conf that precede the line that trusts every user on the
	// loopback interface.
	Access []string
	// Durable makes the server sync its commits. By default it does not sync: commits survive a
	// crash of the server, but not of the machine.
	Durable bool
	// Parent is the directory in which the data directory is created; default [os.TempDir].
	Parent string
}

// Server is a running server. It is not safe for concurrent use.
type Server struct {
	bin, dir string
	port     int
	options  Options
	attr     *syscall.SysProcAttr

	process *os.Process
	ended   chan struct{} // closed when the process has ended
	output  *tail
}

const (
	startTimeout = time.Minute
	stopTimeout  = 20 * time.Second
)

// Start creates and starts a server. The superuser is postgres, without a password. If the
// programs are not installed, the error is [ErrNotInstalled].
func Start(ctx context.Context, options *Options) (*Server, error) {
	bin, err := Find()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, output: &tail{}}
	if options != nil {
		s.options = *options
	}
	if err := s.create(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %w", err), s.remove())
	}
	if err := s.Resume(ctx); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// create creates the directory and the cluster in it.
func (s *Server) create(ctx context.Context) error {
	dir, err := os.MkdirTemp(s.options.Parent, "pgtest-")
	if err != nil {
		return err
	}
	s.dir = dir
	attr, who, err := attributes()
	if err != nil {
		return err
	}
	s.attr = attr
	if who != nil {
		if err := os.Chown(dir, who.uid, who.gid); err != nil {
			return err
		}
	}
	if s.port, err = freePort(ctx); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"),
		"--pgdata", s.data(), "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = dir, attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	access := strings.Join(s.options.Access, "\n") + "\nlocal all all trust\nhost all all 127.0.0.1/32 trust\n"
	return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(access), 0o600)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Dir returns the directory of the server, with its data in "data".
func (s *Server) Dir() string { return s.dir }

// Bin returns the directory of the server's programs.
func (s *Server) Bin() string { return s.bin }

// Addr returns host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// DSN returns the connection string of a database for the superuser.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr(), database)
}

// Resume restarts the server after [Server.Halt] or [Server.Kill], with the same data and port,
// and waits until it accepts clients.
func (s *Server) Resume(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.launch(ctx)
		if err == nil {
			if err = s.ready(ctx); err == nil {
				return nil
			}
		}
		// A killed server may still hold its memory for a moment.
		select {
		case <-ctx.Done():
			return fmt.Errorf("pgtest: the server does not start: %w\n%s", err, s.output)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) args() []string {
	settings := map[string]string{
		"port":                             strconv.Itoa(s.port),
		"listen_addresses":                 "127.0.0.1",
		"unix_socket_directories":          s.dir,
		"max_connections":                  "200",
		"fsync":                            strconv.FormatBool(s.options.Durable),
		"full_page_writes":                 strconv.FormatBool(s.options.Durable),
		"log_min_messages":                 "fatal",
		"log_min_error_statement":          "panic",
		"restart_after_crash":              "on",
		"max_wal_size":                     "256MB",
		"dynamic_shared_memory_type":       "mmap", // nothing remains outside of the directory
		"logging_collector":                "off",
		"client_connection_check_interval": "0",
	}
	for name, value := range s.options.Settings {
		settings[name] = value
	}
	args := []string{"-D", s.data()}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// launch starts the process. The kernel ends the server when the thread that started it ends, so
// that thread is kept.
func (s *Server) launch(ctx context.Context) error {
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), s.args()...) // outlives ctx
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s.output, s.output, 5*time.Second
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // if this thread ended, other children of it would end too
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the output has the reason
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process, s.ended = cmd.Process, ended
	return ctx.Err()
}

// ready waits until the server accepts clients.
func (s *Server) ready(ctx context.Context) error {
	for {
		if s.answers(ctx) {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answers reports whether the server accepts a new client. Until it is ready it answers with an
// error.
func (s *Server) answers(ctx context.Context) bool {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return false
	}
	defer conn.Close()
	const words = "user\x00postgres\x00database\x00postgres\x00\x00"
	const protocol = 3 << 16
	hello := binary.BigEndian.AppendUint32(nil, uint32(8+len(words)))
	hello = append(binary.BigEndian.AppendUint32(hello, protocol), words...)
	answer := make([]byte, 1)
	if conn.SetDeadline(time.Now().Add(5*time.Second)) != nil {
		return false
	}
	if _, err := conn.Write(hello); err != nil {
		return false
	}
	_, err = conn.Read(answer)
	return err == nil && answer[0] == 'R'
}

// Halt shuts the server down in order: it ends all connections and has written all data.
func (s *Server) Halt() error { return s.end(syscall.SIGINT) }

// Kill kills the server and all its connections as a crash would.
func (s *Server) Kill() error {
	children := s.children()
	err := s.end(syscall.SIGKILL)
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
	}
	return err
}

// children returns the processes of the server. They would notice the end of the first process
// only with a delay.
func (s *Server) children() (pids []int) {
	if s.process == nil {
		return nil
	}
	path := fmt.Sprintf("/proc/%d/task/*/children", s.process.Pid)
	lists, _ := filepath.Glob(path) // none except on Linux
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	_ = s.process.Signal(signal) // it may have ended already
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
		_ = s.process.Signal(syscall.SIGQUIT)
		<-s.ended
	}
	s.process = nil
	return nil
}

// Stop ends the server and removes its directory. Further calls do nothing.
func (s *Server) Stop() error {
	return errors.Join(s.end(syscall.SIGQUIT), s.remove())
}

func (s *Server) remove() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// freePort returns an unused loopback port. It is below the range from which Linux takes the ports
// of outgoing connections, so that no connection takes it while the server is down.
func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := config.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("found no unused port")
}

// tail keeps the end of the server's output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - most; over > 0 {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

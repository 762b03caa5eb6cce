package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config configures a server. Binary and Dir are required.
type Config struct {
	Binary string
	Dir    string   // for data and log
	Flags  []string // further flags of etcd
	Sync   bool     // sync to the disk; without it, a crash of the machine (not of the process) loses data
}

// Server is one running server.
type Server struct {
	Name string
	URL  string // for clients

	config Config
	args   []string
	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
}

// startTimeout bounds the start of a server.
const startTimeout = time.Minute

// Start starts a cluster of one server and waits until it serves clients.
func Start(ctx context.Context, c Config) (*Server, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	s := newServer(c, "m0", ports[0], ports[1], address(ports[1]))
	s.args = append(s.args, "--initial-cluster", s.Name+"="+address(ports[1]))
	if err := s.start(); err != nil {
		return nil, err
	}
	if err := s.Wait(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// newServer prepares a server that the other members reach at the URL peer.
func newServer(c Config, name string, clientPort, peerPort int, peer string) *Server {
	s := &Server{Name: name, URL: address(clientPort), config: c}
	s.args = []string{
		"--name", name, "--data-dir", filepath.Join(c.Dir, name),
		"--listen-client-urls", s.URL, "--advertise-client-urls", s.URL,
		"--listen-peer-urls", address(peerPort), "--initial-advertise-peer-urls", peer,
		"--heartbeat-interval", "50", "--election-timeout", "500",
		"--snapshot-count", "2000", "--log-level", "warn", "--logger", "zap",
	}
	if !c.Sync {
		s.args = append(s.args, "--unsafe-no-fsync")
	}
	s.args = append(s.args, c.Flags...)
	return s
}

func address(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) }

// freePorts returns unused loopback ports. They are below the range from which Linux takes the
// ports of outgoing connections, so that no connection takes one while its server is down.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 100 * n {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue // in use
		}
		defer func() { _ = l.Close() }() // close them last, so that the ports differ
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("found too few unused ports")
}

// start runs the process.
func (s *Server) start() error {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.Command(s.config.Binary, s.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.stdin, s.exited = cmd, stdin, make(chan struct{})
	go func(exited chan struct{}) {
		_ = cmd.Wait() // the log has the reason
		close(exited)
	}(s.exited)
	return nil
}

func (s *Server) logPath() string { return filepath.Join(s.config.Dir, s.Name+".log") }

// Log returns the end of the server's log.
func (s *Server) Log() string {
	data, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// Wait waits until the server knows a leader and answers.
func (s *Server) Wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.healthy(ctx) {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return fmt.Errorf("the server %s ended:\n%s", s.Name, s.Log())
		case <-ctx.Done():
			return fmt.Errorf("the server %s does not serve: %w\n%s", s.Name, context.Cause(ctx), s.Log())
		}
	}
}

// healthy asks for a linearizable read.
func (s *Server) healthy(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/health", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK
}

// Kill ends the process like a crash, and waits for it. A second Kill does nothing.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.exited
	_ = s.stdin.Close()
}

// Restart restarts a killed server on its data, and waits until it serves clients.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
	return s.Wait(ctx)
}

// Launch restarts a killed server without waiting.
func (s *Server) Launch() error {
	select {
	case <-s.exited:
		return s.start()
	default:
		return errors.New("the server " + s.Name + " is still running")
	}
}

// Pause stops the process without ending it: its connections stay open and get no answers.
func (s *Server) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

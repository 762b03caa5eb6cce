package agent

import (
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
)

// Config configures an [Agent]. Zero fields take the defaults.
type Config struct {
	// Finalizer is the agent's token in spec.finalizers. Default: "kubernetes", which replaces
	// the stock namespace controller.
	Finalizer finalizer.Name
	// Content selects the resource types that the agent deletes, and how.
	Content kubernetes.Options
	// Workers is the number of namespaces that the agent works on in parallel, at least 4.
	// Default: 64.
	Workers int
	// Lease elects one leader among replicas. Nil: the agent works without election, which is
	// safe but duplicates work if several replicas run.
	Lease *Lease

	// Listen is the address that serves /healthz, /readyz and /metrics. Empty: none.
	Listen string
	// DebugPages serves pages at Listen that explain terminating namespaces. The pages have no
	// authentication and show names of objects.
	DebugPages bool
	// InsecureListen allows DebugPages on an address that other machines can reach.
	InsecureListen bool
	// Hosts are additional names by which browsers reach Listen; see [httpguard.New].
	Hosts []string

	// Output receives a line for each change of state. Default: discarded.
	Output io.Writer
	// Logger receives the controller's log. Default: discarded.
	Logger *slog.Logger
}

// Lease configures leader election. Zero fields take the defaults.
type Lease struct {
	Namespace string        // default: "kube-system"
	Name      string        // default: derived from the finalizer
	Identity  string        // name of this replica; default: the host name and a random suffix
	Duration  time.Duration // time after which replicas replace a silent leader, in whole seconds, 1s to 1h; default: 15s
}

func (c Config) withDefaults() Config {
	if c.Finalizer == "" {
		c.Finalizer = finalizer.Kubernetes
	}
	if c.Output == nil {
		c.Output = io.Discard
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Lease != nil {
		lease := c.Lease.withDefaults(c.Finalizer)
		c.Lease = &lease
	}
	return c
}

func (l Lease) withDefaults(f finalizer.Name) Lease {
	if l.Namespace == "" {
		l.Namespace = "kube-system"
	}
	if l.Name == "" {
		l.Name = leaseName(f)
	}
	if l.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "nslifecycle"
		}
		l.Identity = host + "_" + rand.String(8)
	}
	if l.Duration == 0 {
		l.Duration = 15 * time.Second
	}
	return l
}

// validate checks c, which has its defaults. Errors begin with the name of the command's flag.
func (c Config) validate() error {
	if err := c.Finalizer.Validate(); err != nil {
		return fmt.Errorf("finalizer is %q: %w", c.Finalizer, err)
	}
	switch {
	case c.Workers != 0 && c.Workers < 4:
		return fmt.Errorf("workers is %d, must be at least 4", c.Workers)
	case c.Content.QuietTwice && c.Content.Wait < 0:
		return fmt.Errorf("quiet-twice ends a wait early, but wait is %v (no wait)", c.Content.Wait)
	case c.DebugPages && !c.InsecureListen && !loopback(c.Listen):
		return fmt.Errorf("listen is %q: other machines could read debug-pages without authentication; "+
			"listen on 127.0.0.1, or allow it with insecure-listen", c.Listen)
	}
	if _, err := httpguard.New(c.Hosts...); err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	if c.Lease != nil {
		return c.Lease.validate()
	}
	return nil
}

func (l Lease) validate() error {
	if problems := validation.IsDNS1123Label(l.Namespace); len(problems) > 0 {
		return fmt.Errorf("lease-namespace is %q: %s", l.Namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(l.Name); len(problems) > 0 {
		return fmt.Errorf("lease-name is %q: %s", l.Name, problems[0])
	}
	if l.Duration < time.Second || l.Duration > time.Hour || l.Duration%time.Second != 0 {
		return fmt.Errorf("lease-duration is %v, must be whole seconds from 1s to 1h", l.Duration)
	}
	return nil
}

// leaseName derives a lease name from a finalizer. Different finalizers get different names: a
// finalizer that is not usable or not unambiguous in a name is replaced by its hash.
func leaseName(f finalizer.Name) string {
	const prefix = "nslifecycle-"
	name := prefix + strings.Replace(string(f), "/", "-", 1)
	if !strings.Contains(string(f), "-") && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(f)) // never fails
	return fmt.Sprintf("%s%016x", prefix, hash.Sum64())
}

// loopback reports whether only this machine can reach address. Addresses that cannot be parsed
// count as loopback: net.Listen reports them.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// hosts returns the names by which browsers may reach the endpoints.
func (c Config) hosts() []string {
	hosts := c.Hosts
	host, _, _ := net.SplitHostPort(c.Listen) // net.Listen reports the error
	if _, err := netip.ParseAddr(host); err != nil && host != "" {
		hosts = append(hosts[:len(hosts):len(hosts)], host)
	}
	return hosts
}

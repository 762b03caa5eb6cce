package main

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/examples/internal/reach"
	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// config is what the command line chooses.
type config struct {
	kubeconfig   string
	server       string
	finalizer    finalizer.Name
	only         []namespace.ResourceType
	except       []namespace.ResourceType
	exceptGroups []string
	wait         time.Duration
	quietTwice   bool
	oneByOne     bool
	workers      int
	qps          float64 // zero: no limit
	burst        int     // zero: one
	lease        lease
	listen       string // empty: no endpoints
	pages        bool   // beside the endpoints
	reach        reach.Flags
	dryRun       bool
	explain      string // the namespace to explain; empty: none
	verbose      bool
}

// lease is how replicas agree who works.
type lease struct {
	elect     bool
	namespace string
	name      string
	identity  string
	duration  time.Duration
}

// parse reads the command line; what is said about the flags goes to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := program.Flags()
	c.define(flags.FlagSet)
	if err := flags.Parse(w, args); err != nil {
		return config{}, err
	}
	if err := c.check(); err != nil {
		return config{}, &command.UsageError{Err: err}
	}
	return c, nil
}

func (c *config) define(flags *flag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "the `file` that says how to reach the API server (default: as kubectl finds it, or in a pod its service account)")
	flags.StringVar(&c.server, "server", "", "the `address` of the API server (default: the one of the kubeconfig)")
	flags.StringVar((*string)(&c.finalizer), "finalizer", string(finalizer.Kubernetes), "the `name` in spec.finalizers that is the agent's; the default takes the place of the stock namespace controller")
	flags.Func("only", "the `types` to empty, separated by commas, such as configmaps,widgets.example.com (default: all there are)", resources(&c.only))
	flags.Func("except", "`types` to leave alone", resources(&c.except))
	flags.Func("except-groups", "`groups` of types to leave alone, also when they cannot be discovered, such as metrics.k8s.io", groups(&c.exceptGroups))
	flags.DurationVar(&c.wait, "wait", 0, "for how `long` an empty namespace is looked at again, since creates may be under way; negative: not at all (default: 5s, nothing with an API server of this library)")
	flags.BoolVar(&c.quietTwice, "quiet-twice", false, "end the wait when a second, later look finds nothing either")
	flags.BoolVar(&c.oneByOne, "one-by-one", false, "delete object by object, each under its uid, and never a collection")
	flags.IntVar(&c.workers, "workers", 0, "how many namespaces to work on at the same time (default 64)")
	flags.Float64Var(&c.qps, "qps", 0, "how many requests a second to make at most (default: as many as the API server takes)")
	flags.IntVar(&c.burst, "burst", 0, "how many requests to make at once after a pause, with --qps (default 1)")
	flags.BoolVar(&c.lease.elect, "leader-elect", true, "work only while holding the lease, so that one of several replicas does")
	flags.StringVar(&c.lease.namespace, "lease-namespace", "kube-system", "the `namespace` of the lease")
	flags.StringVar(&c.lease.name, "lease-name", "", "the `name` of the lease (default: made of the finalizer)")
	flags.DurationVar(&c.lease.duration, "lease-duration", 15*time.Second, "for how `long` the lease of a leader that went silent holds; whole seconds")
	flags.StringVar(&c.lease.identity, "identity", "", "the `name` of this replica (default: made of the host's)")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:0", "the `address` to serve /healthz, /readyz and /metrics on; port 0 takes a free one; empty: nowhere")
	flags.BoolVar(&c.pages, "debug-pages", false, "serve pages there too that show what keeps namespaces, with names of objects, without authentication")
	c.reach.Define(flags)
	flags.BoolVar(&c.dryRun, "dry-run", false, "tell what would be deleted, write nothing, and end")
	flags.StringVar(&c.explain, "explain", "", "tell what keeps the `namespace` and what is in it, write nothing, and end")
	flags.BoolVar(&c.verbose, "verbose", false, "write a log to standard error")
}

// check refuses what makes no sense, and sets defaults that depend.
func (c *config) check() error {
	if err := c.finalizer.Validate(); err != nil {
		return fmt.Errorf("--finalizer is %q: %w", c.finalizer, err)
	}
	switch {
	case c.workers != 0 && c.workers < 4:
		return fmt.Errorf("--workers is %d, it must be at least 4", c.workers)
	case !(0 <= c.qps && c.qps <= math.MaxInt32): // neither is what is no number
		return fmt.Errorf("--qps is %v, it must be a number that is not negative", c.qps)
	case c.burst < 0:
		return fmt.Errorf("--burst is %d, it must not be negative", c.burst)
	case c.burst > 0 && c.qps == 0:
		return errors.New("--burst needs --qps: without it there is no limit")
	case c.dryRun && c.explain != "":
		return errors.New("--dry-run and --explain both end: ask for one of them")
	case c.quietTwice && c.wait < 0:
		return fmt.Errorf("--quiet-twice ends a wait, and --wait is %v", c.wait)
	}
	if c.pages {
		if err := c.reach.Check("listen", c.listen); err != nil {
			return fmt.Errorf("--debug-pages: %w", err)
		}
	}
	if wrong := validation.IsDNS1123Label(c.explain); c.explain != "" && len(wrong) > 0 {
		return fmt.Errorf("--explain is %q: %s", c.explain, wrong[0])
	}
	return c.lease.check(c.finalizer)
}

func (l *lease) check(f finalizer.Name) error {
	if l.name == "" {
		l.name = leaseName(f)
	}
	if l.identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "nslifecycle"
		}
		l.identity = host + "_" + rand.String(8)
	}
	if wrong := validation.IsDNS1123Label(l.namespace); len(wrong) > 0 {
		return fmt.Errorf("--lease-namespace is %q: %s", l.namespace, wrong[0])
	}
	if wrong := validation.IsDNS1123Subdomain(l.name); len(wrong) > 0 {
		return fmt.Errorf("--lease-name is %q: %s", l.name, wrong[0])
	}
	if l.duration < time.Second || l.duration > time.Hour || l.duration%time.Second != 0 {
		return fmt.Errorf("--lease-duration is %v, it must be whole seconds, from 1s to 1h", l.duration)
	}
	return nil
}

// leaseName makes the name of a lease, another one for each finalizer: what cannot be
// taken as it is, or could be made of two finalizers, is told apart by its hash.
func leaseName(f finalizer.Name) string {
	const prefix = "nslifecycle-"
	name := prefix + strings.Replace(string(f), "/", "-", 1)
	if !strings.Contains(string(f), "-") && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(f)) // it never fails
	return fmt.Sprintf("%s%016x", prefix, hash.Sum64())
}

// resources reads types as kubectl writes them.
func resources(into *[]namespace.ResourceType) func(string) error {
	return func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			name, group, _ := strings.Cut(one, ".")
			r := namespace.ResourceType{Group: group, Name: name}
			if wrong := validation.IsDNS1035Label(name); len(wrong) > 0 {
				return fmt.Errorf("%q is no type such as configmaps or widgets.example.com: %s", one, wrong[0])
			}
			if wrong := validation.IsDNS1123Subdomain(group); len(wrong) > 0 && strings.Contains(one, ".") {
				return fmt.Errorf("%q is no type such as configmaps or widgets.example.com: %s", one, wrong[0])
			}
			*into = append(*into, r)
		}
		return nil
	}
}

func groups(into *[]string) func(string) error {
	return func(text string) error {
		for group := range strings.SplitSeq(text, ",") {
			if wrong := validation.IsDNS1123Subdomain(group); len(wrong) > 0 {
				return fmt.Errorf("%q is no group such as metrics.k8s.io: %s", group, wrong[0])
			}
			*into = append(*into, group)
		}
		return nil
	}
}

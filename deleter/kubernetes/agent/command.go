package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
)

const about = `Nslifecycle-agent deletes the content of terminating namespaces that hold its finalizer,
and then removes the finalizer. It works on a Kubernetes cluster, or on any other server of the
Kubernetes API.

    nslifecycle-agent                                   replace the stock namespace controller
    nslifecycle-agent --finalizer example.com/agent     run as a second party beside it
    nslifecycle-agent --dry-run                         show what it would delete, and exit
    nslifecycle-agent --explain development             show why a namespace still exists, and exit

Without --kubeconfig and --server it uses the kubeconfig that kubectl would use, or in a pod the
service account of the pod. The agent picks up where it left off after any crash or restart.

Exit codes: 0 when done or stopped by SIGTERM (143 if that cut short --dry-run or --explain), 130
after an interrupt, 2 for an invalid command line, 1 for any other failure to start, an incomplete
dry run, or an explanation of an unknown namespace.

Flags:
`

// command holds the flags of the command.
type command struct {
	Config
	kubeconfig string
	server     string
	qps        float64
	burst      int
	elect      bool
	lease      Lease
	dryRun     bool
	explain    string
	verbose    bool
}

// Main runs the command nslifecycle-agent and returns its exit code. A first SIGINT or SIGTERM
// stops the agent gracefully; a second one ends the process.
func Main(args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "nslifecycle-agent: %v; see --help\n", err)
		return 2
	}
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	code := make(chan int, 1)
	go func() {
		received := <-signals
		signal.Stop(signals)
		switch {
		case received == os.Interrupt:
			code <- 128 + int(syscall.SIGINT)
		case c.dryRun || c.explain != "": // incomplete
			code <- 128 + int(syscall.SIGTERM)
		default:
			code <- 0
		}
		stop()
	}()
	c.Output, c.Logger = stdout, slog.New(slog.DiscardHandler)
	if c.verbose {
		c.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	}
	klog.SetSlogLogger(c.Logger) // client-go logs only there, in the whole process
	err = c.run(ctx, stdout)
	if ctx.Err() != nil {
		return <-code
	}
	if err != nil {
		fmt.Fprintf(stderr, "nslifecycle-agent: %v\n", err)
		return 1
	}
	return 0
}

func (c command) run(ctx context.Context, stdout io.Writer) error {
	connection, err := c.connection()
	if err != nil {
		return err
	}
	a, err := New(connection, c.Config)
	switch {
	case err != nil:
		return err
	case c.dryRun:
		return a.DryRun(ctx, stdout)
	case c.explain != "":
		return a.Report(ctx, stdout, c.explain)
	}
	return a.Run(ctx)
}

// parse parses and checks the command line. For --help it writes the help to w and returns
// [flag.ErrHelp].
func parse(args []string, w io.Writer) (command, error) {
	var c command
	flags := flag.NewFlagSet("nslifecycle-agent", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller reports errors
	c.define(flags)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(w, about)
		flags.SetOutput(w)
		flags.PrintDefaults()
		return command{}, err
	case err != nil:
		return command{}, err
	case flags.NArg() > 0:
		return command{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if c.elect {
		c.Lease = &c.lease
	}
	if err := c.check(); err != nil {
		return command{}, fmt.Errorf("--%w", err)
	}
	return c, nil
}

func (c *command) define(flags *flag.FlagSet) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "the `file` with address and credentials of the API server (default: as kubectl finds it, or in a pod its service account)")
	flags.StringVar(&c.server, "server", "", "the `URL` of the API server (default: from the kubeconfig)")
	flags.StringVar((*string)(&c.Finalizer), "finalizer", string(finalizer.Kubernetes), "the agent's `name` in spec.finalizers; the default replaces the stock namespace controller")
	flags.Func("only", "the resource `types` to delete, comma-separated, such as configmaps,widgets.example.com (default: all)", resourceTypes(&c.Content.Only))
	flags.Func("except", "the resource `types` to ignore, comma-separated", resourceTypes(&c.Content.Except))
	flags.Func("except-groups", "the API `groups` to ignore, comma-separated, even if discovery of them fails, such as metrics.k8s.io", groups(&c.Content.ExceptGroups))
	flags.DurationVar(&c.Content.Wait, "wait", 0, "how `long` to keep checking an empty namespace for objects whose creation is in flight; negative: no wait (default: 5s; no wait for an API server of this library)")
	flags.BoolVar(&c.Content.QuietTwice, "quiet-twice", false, "end the wait early if a second check finds nothing")
	flags.BoolVar(&c.Content.OneByOne, "one-by-one", false, "delete each object by its uid, never a whole collection")
	flags.IntVar(&c.Workers, "workers", 0, "the `number` of namespaces to work on in parallel, at least 4 (default 64)")
	flags.Float64Var(&c.qps, "qps", 0, "the maximum `requests` per second (default: unlimited; the API server limits)")
	flags.IntVar(&c.burst, "burst", 0, "the `requests` allowed at once after a pause, with --qps (default 1)")
	flags.BoolVar(&c.elect, "leader-elect", true, "work only while holding the lease, so that one replica works at a time")
	flags.StringVar(&c.lease.Namespace, "lease-namespace", "kube-system", "the `namespace` of the lease")
	flags.StringVar(&c.lease.Name, "lease-name", "", "the `name` of the lease (default: derived from the finalizer)")
	flags.DurationVar(&c.lease.Duration, "lease-duration", 15*time.Second, "`time` after which another replica replaces a silent leader, in whole seconds from 1s to 1h")
	flags.StringVar(&c.lease.Identity, "identity", "", "the `name` of this replica (default: the host name and a random suffix)")
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:0", "the `address` to serve /healthz, /readyz and /metrics on; port 0 picks a free port; empty: none")
	flags.BoolVar(&c.DebugPages, "debug-pages", false, "serve pages on --listen that explain terminating namespaces; they show names of objects without authentication")
	flags.BoolVar(&c.InsecureListen, "insecure-listen", false, "allow --debug-pages on an address that other machines can reach")
	flags.Func("hosts", "additional `names` that browsers use to reach --listen, comma-separated; requests for other names than localhost and IP addresses are rejected", func(list string) error {
		c.Hosts = append(c.Hosts, strings.Split(list, ",")...)
		return nil
	})
	flags.BoolVar(&c.dryRun, "dry-run", false, "show what the agent would delete now, write nothing, and exit")
	flags.StringVar(&c.explain, "explain", "", "show why the `namespace` still exists and what is in it, write nothing, and exit")
	flags.BoolVar(&c.verbose, "verbose", false, "write a log to standard error")
}

// check validates the command line. Errors begin with the name of a flag.
func (c command) check() error {
	switch {
	case c.Finalizer == "": // a zero Config would take the default
		return errors.New(`finalizer is "", must be a name`)
	case c.lease.Namespace == "":
		return errors.New(`lease-namespace is "", must be a name`)
	case c.lease.Duration == 0:
		return errors.New("lease-duration is 0s, must be whole seconds from 1s to 1h")
	case !(0 <= c.qps && c.qps <= math.MaxInt32): // NaN fails too
		return fmt.Errorf("qps is %v, must be a number of at least 0", c.qps)
	case c.burst < 0:
		return fmt.Errorf("burst is %d, must be at least 0", c.burst)
	case c.burst > 0 && c.qps == 0:
		return errors.New("burst needs --qps")
	case c.dryRun && c.explain != "":
		return errors.New("dry-run and --explain exclude each other")
	}
	if u, err := url.Parse(c.server); c.server != "" && err == nil && u.User != nil {
		return errors.New("server must not contain a user or a password: use a kubeconfig")
	}
	if problems := validation.IsDNS1123Label(c.explain); c.explain != "" && len(problems) > 0 {
		return fmt.Errorf("explain is %q: %s", c.explain, problems[0])
	}
	return c.withDefaults().validate()
}

// connection finds the API server as kubectl does, or in a pod by its service account. It sends
// no requests.
func (c command) connection() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	var overrides clientcmd.ConfigOverrides
	overrides.ClusterInfo.Server = c.server
	connection, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no API server is configured: set --kubeconfig or --server, or run in a pod of the cluster")
	case err != nil && c.kubeconfig != "":
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	case err != nil:
		return nil, err
	}
	connection.QPS, connection.Burst = float32(c.qps), c.burst
	connection.UserAgent = "nslifecycle/" + string(c.Finalizer)
	if !c.verbose {
		connection.WarningHandler = rest.NoWarnings{} // such as a deprecated type, which is deleted all the same
	}
	return connection, nil
}

// resourceTypes returns a flag function that parses resource types in kubectl's form.
func resourceTypes(into *[]namespace.ResourceType) func(string) error {
	return func(list string) error {
		for text := range strings.SplitSeq(list, ",") {
			name, group, qualified := strings.Cut(text, ".")
			problems := validation.IsDNS1035Label(name)
			if qualified {
				problems = append(problems, validation.IsDNS1123Subdomain(group)...)
			}
			if len(problems) > 0 {
				return fmt.Errorf("%q is not a resource type such as configmaps or widgets.example.com: %s", text, problems[0])
			}
			*into = append(*into, namespace.ResourceType{Group: group, Name: name})
		}
		return nil
	}
}

func groups(into *[]string) func(string) error {
	return func(list string) error {
		for group := range strings.SplitSeq(list, ",") {
			if problems := validation.IsDNS1123Subdomain(group); len(problems) > 0 {
				return fmt.Errorf("%q is not an API group such as metrics.k8s.io: %s", group, problems[0])
			}
			*into = append(*into, group)
		}
		return nil
	}
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
)

// config is the command line.
type config struct {
	listen     string
	store      string // one of the kinds below
	data       string // directory of bolt
	dsn        string // of PostgreSQL
	kubeconfig string // file to write, optional
	tokens     string // file to read; empty: no authentication
	grants     string // file to read; empty: every authenticated user may do everything
	types      int    // number of additional types of content
	debug      string // address of the debug pages, optional
	hosts      []string
	insecure   bool
	manifests  manifestFlags
	wait       time.Duration // for the file of bolt
	controller bool
	verbose    bool
}

// The kinds of stores.
const (
	kindBolt     = "bolt"
	kindMemory   = "memory"
	kindPostgres = "postgres"
)

const schema = "nslifecycle_apiserver"

// parse parses the command line. It writes the help to w.
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
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8080", "the `address` to serve on; port 0 picks a free port")
	flags.StringVar(&c.store, "store", kindBolt, "the `kind` of store: bolt, memory or postgres")
	flags.StringVar(&c.data, "data", "", "the `directory` for the file of bolt (default: apiserver in "+command.StateAbout+")")
	flags.StringVar(&c.dsn, "dsn", "", "the `address` of a PostgreSQL server; the data is in schema "+schema)
	flags.StringVar(&c.kubeconfig, "write-kubeconfig", "", "a `file` to write, for kubectl's --kubeconfig")
	flags.StringVar(&c.tokens, "tokens", "", "a `file` of lines token,user,uid,\"group,group\": serve HTTPS, and only to these users")
	flags.StringVar(&c.grants, "grants", "", "a JSON `file` of the permissions of users and groups in namespaces; needs --tokens")
	flags.IntVar(&c.types, "types", 0, "the `number` of additional types t001.example.com and so on, to simulate a large cluster")
	flags.StringVar(&c.debug, "debug-listen", "", "the `address` to serve pages on that explain terminating namespaces, without authentication; port 0 picks a free port (default: none)")
	flags.Func("hosts", "additional `names` that clients use to reach the program, comma-separated; without authentication, requests for other names than localhost and IP addresses are rejected, since they may come from a website", func(list string) error {
		c.hosts = append(c.hosts, strings.Split(list, ",")...)
		_, err := httpguard.New(c.hosts...)
		return err
	})
	flags.BoolVar(&c.insecure, "insecure-listen", false, "let other machines reach addresses without authentication")
	flags.Func("manifests", "a `directory` of manifests, or the URL of one: keep its objects in the namespace of --node in sync; may be repeated", func(from string) error {
		c.manifests.from = append(c.manifests.from, from)
		return nil
	})
	flags.StringVar(&c.manifests.node, "node", "", "the `namespace` for the objects of --manifests (default: the host name)")
	flags.DurationVar(&c.wait, "wait", 0, "how `long` to wait for another process to close the file in --data")
	flags.BoolVar(&c.controller, "controller", true, "delete the content of terminating namespaces")
	flags.BoolVar(&c.verbose, "verbose", false, "log every request to standard error, not only failures")
}

// check validates the command line and sets the default of --data.
func (c *config) check() error {
	if !slices.Contains([]string{kindBolt, kindMemory, kindPostgres}, c.store) {
		return fmt.Errorf("--store is %q, must be %s, %s or %s", c.store, kindBolt, kindMemory, kindPostgres)
	}
	switch {
	case c.data != "" && c.store != kindBolt:
		return fmt.Errorf("--data needs --store %s", kindBolt)
	case (c.dsn != "") != (c.store == kindPostgres):
		return fmt.Errorf("--store %s and --dsn need each other", kindPostgres)
	case c.wait < 0:
		return fmt.Errorf("--wait is %v, must be at least 0", c.wait)
	case c.types < 0 || c.types > maxTypes:
		return fmt.Errorf("--types is %d, must be 0 to %d", c.types, maxTypes)
	case c.grants != "" && c.tokens == "":
		return errors.New("--grants needs --tokens")
	case c.tokens == "" && !c.insecure && !loopback(c.listen):
		return fmt.Errorf("--listen is %q: other machines could use it without authentication; listen on 127.0.0.1, allow it with --insecure-listen, or let in only clients with --tokens", c.listen)
	case !c.insecure && !loopback(c.debug):
		return fmt.Errorf("--debug-listen is %q: other machines could use it without authentication; listen on 127.0.0.1, or allow it with --insecure-listen", c.debug)
	}
	if err := c.manifests.check(); err != nil {
		return err
	}
	if c.store == kindBolt && c.data == "" {
		var err error
		if c.data, err = command.State("apiserver"); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
	}
	return nil
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

// clientHosts returns the names by which clients reach address.
func (c config) clientHosts(address string) []string {
	hosts := slices.Clone(c.hosts)
	host, _, _ := net.SplitHostPort(address) // net.Listen reports the error
	if _, err := netip.ParseAddr(host); err != nil && host != "" {
		hosts = append(hosts, host)
	}
	return hosts
}

package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nslifecycle/nslifecycle/examples/internal/command"
	"github.com/nslifecycle/nslifecycle/examples/internal/reach"
)

// config is what the command line chooses.
type config struct {
	listen     string
	store      string      // one of the kinds below
	data       string      // directory of bolt
	dsn        string      // of PostgreSQL
	endpoints  string      // of etcd
	kubeconfig string      // a file to write; empty: none
	tokens     string      // a file to read; empty: no authentication
	grants     string      // a file to read; empty: every authenticated user may do everything
	types      int         // number of additional types of content
	debug      string      // the address of the debug pages; empty: nowhere
	reach      reach.Flags // of endpoints without authentication
	manifests  manifests
	wait       time.Duration // for the file of bolt
	controller bool
	verbose    bool
}

// The kinds of stores.
const (
	kindBolt     = "bolt"
	kindMemory   = "memory"
	kindEtcd     = "etcd"
	kindPostgres = "postgres"
)

// parse reads the command line; what is said about the flags goes to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	flags := program.Flags()
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8080", "the `address` to serve on; port 0 takes a free one")
	flags.StringVar(&c.store, "store", kindBolt, "the `kind` of store: bolt, memory, etcd or postgres")
	flags.StringVar(&c.data, "data", "", "the `directory` that bolt keeps its file in, which no other user can write to (default: apiserver in "+command.StateAbout+")")
	flags.StringVar(&c.dsn, "dsn", "", "`address` of a PostgreSQL that runs; everything goes into the schema "+place)
	flags.StringVar(&c.endpoints, "endpoints", "", "`addresses` of an etcd that runs, separated by commas; everything goes below /"+place)
	flags.StringVar(&c.kubeconfig, "write-kubeconfig", "", "a `file` to write, for kubectl's --kubeconfig")
	flags.StringVar(&c.tokens, "tokens", "", "a `file` of lines token,user,uid,\"group,group\": only these are let in, over HTTPS")
	flags.StringVar(&c.grants, "grants", "", "a JSON `file` that says which user or group may do what in which namespace; needs --tokens")
	flags.IntVar(&c.types, "types", 0, "serve this `number` of further types, t001.example.com and so on, as large clusters have them")
	flags.StringVar(&c.debug, "debug-listen", "", "also serve pages on this `address` that show what keeps namespaces, without authentication; port 0 takes a free one (default: nowhere)")
	c.reach.Define(flags.FlagSet)
	flags.Func("manifests", "keep the objects that the files in a `directory`, or a document at a URL, describe in the namespace of --node; may be repeated", func(from string) error {
		c.manifests.from = append(c.manifests.from, from)
		return nil
	})
	flags.StringVar(&c.manifests.node, "node", "", "the `namespace` for the objects of --manifests (default: the name of this host)")
	flags.DurationVar(&c.wait, "wait", 0, "how `long` to wait for another process to close the file in --data")
	flags.BoolVar(&c.controller, "controller", true, "run the controller that empties namespaces that are deleted")
	flags.BoolVar(&c.verbose, "verbose", false, "also write an access log to standard error, beside failures")
	if err := flags.Parse(w, args); err != nil {
		return config{}, err
	}
	if err := c.check(); err != nil {
		return config{}, &command.UsageError{Err: err}
	}
	return c, nil
}

// check refuses what makes no sense together, and sets defaults that depend.
func (c *config) check() error {
	switch c.store {
	case kindBolt, kindMemory, kindEtcd, kindPostgres:
	default:
		return fmt.Errorf("--store is %q, it must be %s, %s, %s or %s", c.store, kindBolt, kindMemory, kindEtcd, kindPostgres)
	}
	for _, place := range []struct{ flag, value, kind string }{
		{"data", c.data, kindBolt}, {"dsn", c.dsn, kindPostgres}, {"endpoints", c.endpoints, kindEtcd},
	} {
		switch {
		case place.kind != c.store && place.value != "":
			return fmt.Errorf("--%s is for --store %s, and the store is %s", place.flag, place.kind, c.store)
		case place.kind == c.store && place.value == "" && place.kind != kindBolt:
			return fmt.Errorf("--store %s needs --%s", c.store, place.flag)
		}
	}
	if c.wait < 0 {
		return fmt.Errorf("--wait is %v, it must not be negative", c.wait)
	}
	if err := c.manifests.check(); err != nil {
		return err
	}
	if c.types < 0 || c.types > maxTypes {
		return fmt.Errorf("--types is %d, it must be 0 to %d", c.types, maxTypes)
	}
	if c.grants != "" && c.tokens == "" {
		return errors.New("--grants needs --tokens: without tokens nobody is known")
	}
	if c.tokens == "" {
		if err := c.reach.Check("listen", c.listen); err != nil {
			return fmt.Errorf("%w, or let in only clients with --tokens", err)
		}
	}
	if err := c.reach.Check("debug-listen", c.debug); err != nil {
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

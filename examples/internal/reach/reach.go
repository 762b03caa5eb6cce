// Package reach has the flags of programs that serve without authentication: which machines
// may reach them, and by which names.
package reach

import (
	"flag"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace/observe/httpguard"
)

// Flags are the values of the flags.
type Flags struct {
	hosts    []string
	insecure bool
}

// Define adds the flags to a set.
func (f *Flags) Define(flags *flag.FlagSet) {
	flags.Func("hosts", "further `names` that clients reach this program by, separated by commas; without authentication requests for other names than localhost and IP addresses are refused, since they may come from a web site", func(list string) error {
		for host := range strings.SplitSeq(list, ",") {
			if host != "" {
				f.hosts = append(f.hosts, host)
			}
		}
		_, err := httpguard.New(f.hosts...)
		return err
	})
	flags.BoolVar(&f.insecure, "insecure-listen", false, "let other machines reach what is served without authentication")
}

// Check refuses the address in a flag if other machines can reach it, unless
// --insecure-listen is set.
func (f *Flags) Check(flag, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || f.insecure || host == "localhost" { // net.Listen reports the error
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("--%s is %q: other machines could use it without authentication; "+
		"listen on 127.0.0.1, or allow it with --insecure-listen", flag, address)
}

// Hosts returns the names by which clients reach addresses.
func (f *Flags) Hosts(addresses ...string) []string {
	hosts := slices.Clone(f.hosts)
	for _, address := range addresses {
		host, _, _ := net.SplitHostPort(address) // net.Listen reports the error
		if _, err := netip.ParseAddr(host); err != nil && host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

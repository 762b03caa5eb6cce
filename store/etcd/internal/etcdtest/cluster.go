package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Cluster is a number of servers connected by links that tests can cut.
type Cluster struct {
	Members []*Server

	links []*link           // to each member
	ids   map[string]string // member names by the identity in their requests
}

// StartCluster starts n members and waits until all of them serve clients.
func StartCluster(ctx context.Context, c Config, n int) (*Cluster, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{ids: map[string]string{}}
	var peers []string
	for i := range n {
		name := fmt.Sprintf("m%d", i)
		l, err := newLink(ports[2*i+1])
		if err != nil {
			cluster.Kill()
			return nil, err
		}
		cluster.links = append(cluster.links, l)
		cluster.Members = append(cluster.Members, newServer(c, name, ports[2*i], ports[2*i+1], l.url()))
		peers = append(peers, name+"="+l.url())
	}
	for _, m := range cluster.Members {
		m.args = append(m.args, "--initial-cluster", strings.Join(peers, ","))
		if err := m.start(); err != nil {
			cluster.Kill()
			return nil, err
		}
	}
	if err := cluster.Wait(ctx); err != nil {
		cluster.Kill()
		return nil, err
	}
	if err := cluster.learn(ctx); err != nil {
		cluster.Kill()
		return nil, err
	}
	return cluster, nil
}

// Kill ends all members and links.
func (c *Cluster) Kill() {
	var all sync.WaitGroup
	for _, m := range c.Members {
		if m.cmd != nil {
			all.Go(m.Kill)
		}
	}
	all.Wait()
	for _, l := range c.links {
		l.close()
	}
}

// Wait waits until all members serve clients.
func (c *Cluster) Wait(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, len(c.Members))
	for i, m := range c.Members {
		all.Go(func() { errs[i] = m.Wait(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// URLs returns the addresses for clients.
func (c *Cluster) URLs() (urls []string) {
	for _, m := range c.Members {
		urls = append(urls, m.URL)
	}
	return urls
}

// learn finds the identities that members use in requests to each other.
func (c *Cluster) learn(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.URLs()})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // nothing is pending
	list, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		c.ids[m.Name] = fmt.Sprintf("%x", m.ID)
	}
	return nil
}

// Leader returns the index of the leader, as reported by the members that answer.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	for _, m := range c.Members {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.URL}})
		if err != nil {
			return 0, err
		}
		status, err := client.Status(ctx, m.URL)
		_ = client.Close() // nothing is pending
		if err != nil {
			return 0, err
		}
		for i, m := range c.Members {
			if c.ids[m.Name] == fmt.Sprintf("%x", status.Leader) {
				return i, nil
			}
		}
	}
	return 0, errors.New("no member knows a leader")
}

// Isolate cuts member i off from the other members. Clients still reach it. Messages in transit
// are held back, as in a network that drops packets.
func (c *Cluster) Isolate(i int) {
	for j, l := range c.links {
		for k, m := range c.Members {
			if j != k && (j == i || k == i) {
				l.cut(c.ids[m.Name])
			}
		}
	}
}

// Heal connects all members again.
func (c *Cluster) Heal() {
	for _, l := range c.links {
		l.heal()
	}
}

// Package etcd is the driver of [store.Store] over an etcd cluster: any number of
// processes, on any number of machines, share one store.
//
//	s, err := etcd.New(ctx, client, "/services/blue", nil)              // a client with TLS and a user
//	s, err := etcd.Open(ctx, []string{"10.0.0.1:2379"}, "/test", nil)   // plain addresses
//
// Servers are of version 3.5.13 or later ([ErrVersion]), better the newest patch of
// their minor version: patches after it mended deletions that watches missed when
// compaction met them (etcd issues 18089 and 19179).
//
// # What it promises
//
// A commit is one transaction of the engine, so it is acknowledged by a majority of
// the cluster, whole or not at all. Gets and listings of now are linearizable,
// whichever member answers. The revision is that of the cluster: it is shared with
// all its users, so it has holes and the beginning is not zero.
//
// # Unknown outcomes
//
// A commit is submitted once. It is submitted again only when it surely was not
// looked at: the member had no leader, or was too busy. When the answer is lost (a
// broken connection, a leader that changed, a context that ended), the error is
// [store.ErrUnknownOutcome] with the cause. Size, rights and the number of operations
// are definite refusals. A context that ends before a connection was found is definite
// too: nothing was submitted. A write that finds no connection for five seconds, or no
// leader, fails with [store.ErrUnavailable]. A write that a full database refuses fails with
// [store.ErrFull]. The server returns the same error for the write that fills the database
// and is applied; that write fails with [store.ErrUnknownOutcome]. Reads, and commits that
// only delete, continue to work while the database is full.
//
// Reads are repeated a few times, on other members, while a member does not answer or
// the cluster has no leader.
//
// # Watches
//
// Each loop has a stream of its own, which is read in the goroutine of the caller. A
// caller that does not read makes the server wait, not this process store: memory
// is bounded by the flow control of the stream. A watch survives the loss of
// connections, members and leaders. It ends with [store.ErrGone] only when history
// was compacted past it, or the cluster has another history.
//
// Connections to a server that vanished without a word are noticed by keep-alive
// probes: set DialKeepAliveTime in the configuration of a client of your own. Bound its
// reconnection backoff too (grpc.WithConnectParams), by default two minutes.
//
// # History
//
// The cluster compacts its history: by its own automatic compaction, [Options.Compact],
// or [Store.Compact]. Until then a deleted value can be read from older positions. Its
// bytes stay in the members' files until they are defragmented, and in snapshots.
//
// # Backups
//
// After a restore open the store once with [Options.NewEpoch], before any other
// process: every position of before is then gone. Bare revisions, as in conditions,
// would fit other commits: restore with etcdutl's --bump-revision and
// --mark-compacted, so that the lost ones are never used again.
package etcd

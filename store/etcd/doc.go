// Package etcd is the driver of [store.Store] over an etcd cluster. Any number of processes, on
// any number of machines, share one store.
//
//	s, err := etcd.New(ctx, client, "/services/blue", nil)              // a client with TLS and a user
//	s, err := etcd.Open(ctx, []string{"10.0.0.1:2379"}, "/test", nil)   // plain addresses
//
// The servers must have version 3.5.13 or later ([ErrVersion]). Prefer the newest patch of a
// minor version: later patches fix deletions that watches missed when they coincided with
// compaction (etcd issues 18089 and 19179).
//
// # Guarantees
//
// A commit is one transaction of the engine: acknowledged by a majority of the cluster, complete
// or not at all. Gets, and listings of now, are linearizable at any member. Revisions are those
// of the cluster, which all its users share, so they have gaps and do not begin at zero.
//
// # Unknown outcomes
//
// A commit is submitted again only if the server certainly did not process it, because it had no
// leader or was too busy. If the answer is lost (a broken connection, a change of leader, a context
// that ended), the error is [store.ErrUnknownOutcome] with the cause. A refusal because of size,
// rights or the number of operations is definite. So is a context that ends before a connection was
// found: nothing was submitted. A write that finds no connection for five seconds, or no leader,
// fails with [store.ErrUnavailable].
//
// A write that a full database refuses fails with [store.ErrFull]. The server returns the same
// error for the write that fills the database, although it applies it; that write fails with
// [store.ErrUnknownOutcome]. Reads, and commits that only delete, work while the database is
// full.
//
// Reads are retried a few times, on other members, if a member does not answer or the cluster
// has no leader.
//
// # Watches
//
// Each loop has a stream of its own, which it reads in the goroutine of its caller. A slow caller
// makes the server wait, not this process: the flow control of the stream bounds memory. A watch
// survives the loss of connections, members and leaders. It ends with [store.ErrGone] only if
// the history it needs was compacted, or if the cluster has another history.
//
// Keep-alive probes detect connections to a server that vanished. Set DialKeepAliveTime in the
// configuration of a client of your own. Bound its reconnection backoff too
// (grpc.WithConnectParams), which is two minutes by default.
//
// # History
//
// The cluster compacts its history: automatically, by [Options.Compact], or by [Store.Compact].
// Until then a deleted value can be read from older positions. Its bytes stay in the files of the
// members until they are defragmented, and in snapshots.
//
// # Backups
//
// After a restore, open the store once with [Options.NewEpoch], before any other process does:
// every earlier position is then gone. Bare revisions, as in conditions, could match other
// commits. So restore with etcdutl's --bump-revision and --mark-compacted, which keep the
// revisions of lost commits from being used again.
package etcd

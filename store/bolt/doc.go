// Package bolt is the durable driver of [store.Store]: one file, one process, no server, on
// go.etcd.io/bbolt.
//
//	s, err := bolt.Open("/var/lib/service/namespaces.db", nil)
//
// # Guarantees
//
// An acknowledged commit has been synced to the file. It survives a crash of the process at any
// moment, and a crash of the machine if the disk honours syncs. Reads and watches show only
// synced commits. A transaction is in the file completely or not at all. Revisions are never used
// twice, not even after restarts, deletions or compaction.
//
// # Writing
//
// One goroutine commits. While it syncs one commit, further transactions gather, and the next
// commit takes them together (package groupcommit): a single writer waits for its own sync only,
// and many writers share one. A conflict fails one transaction and leaves the rest of its batch
// alone.
//
// A transaction whose context ends while it is in the queue is withdrawn: nothing happened. Once
// the committer has taken it, Commit waits for the result in spite of the context, because it is
// one sync away. Only if the disk hangs for more than a second does Commit return
// [store.ErrUnknownOutcome].
//
// If the engine reports a failed commit (a full disk, an I/O error), the store reopens the file
// before any other read or write, and checks whether the batch is in it. If not, nothing was
// written: the transactions fail with the cause, and with [store.ErrFull] if the disk is full.
// Otherwise they fail with [store.ErrUnknownOutcome], because the last sync failed. If the file
// cannot be reopened, the store refuses all calls with [store.ErrClosed] and the cause; the
// service must open it again.
//
// # History
//
// The last [Options.Retain] changes can be watched from and listed at. Later commits drop older
// changes, a few at a time; [Store.Compact] drops them on request. The file does not shrink: the
// engine reuses freed pages.
//
// A deleted value can be read from older positions until its change is dropped. Its bytes stay in
// the file until another commit overwrites the freed page.
//
// # Damage
//
// Each record has a checksum, which every read verifies; a damaged record is [ErrCorrupt]. Open
// checks the pages that refer to other pages. With [Options.Check] it verifies the whole file:
// use it after a crash of the machine or a copy of the file.
//
// # Backups
//
// Copy the file while the store is closed. After a restore, open it once with [Options.NewEpoch],
// so that positions and revisions of the lost history are refused.
package bolt

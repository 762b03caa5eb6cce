// Package bolt is the durable driver of [store.Store]: one file, one process, no
// server, on go.etcd.io/bbolt.
//
//	s, err := bolt.Open("/var/lib/service/namespaces.db", nil)
//
// # What it promises
//
// An acknowledged commit has been synced to the file: it survives a crash of the
// process at any moment, and of the machine as far as the disk keeps its word. Reads
// and watches show only what has been synced. A transaction is in the file whole or
// not at all. Revisions are never used twice, not after restarts, deletions or
// compaction either.
//
// # Writing
//
// One goroutine commits. While one commit is being synced, further transactions
// gather, and the next commit takes them together (group commit): a single
// writer waits for nothing but its own sync, many writers share one. A conflict
// is the result of one transaction and leaves the others of its batch alone.
//
// A transaction whose context ends while it still waits is withdrawn: nothing
// happened. Once the committer has it, Commit waits for the result in spite of
// the context, because it is one sync away; only a disk that hangs for more than
// a second makes it [store.ErrUnknownOutcome].
//
// When the engine reports a failed commit (a full disk, an I/O error), the store reopens
// the file before it reads or writes anything else, and checks whether the batch is in it.
// If it is not, nothing was written: its transactions fail with the cause, and with
// [store.ErrFull] if the disk is full. Otherwise they fail with [store.ErrUnknownOutcome],
// because the last sync failed. If the file cannot be opened,
// the store refuses everything with [store.ErrClosed] and the cause; the service
// opens it again.
//
// # History
//
// The last [Options.Retain] changes can be watched from and listed at; older ones
// are dropped a few at a time by the commits that exceed the number, or on
// request by [Store.Compact]. The file does not shrink: freed pages are used
// again.
//
// A deleted value can be read from older positions until its change is dropped. Its
// bytes stay in the file until another commit overwrites the freed page.
//
// # Damage
//
// Each record has a checksum, which every read verifies; for a damaged record it returns
// [ErrCorrupt]. Open checks the pages that refer to other pages. With [Options.Check] it
// verifies the whole file: use it after a crash of the machine or a copy of the file.
//
// # Backups
//
// Copy the file while the store is closed. After a restore open it once with
// [Options.NewEpoch], so that positions and revisions of the history that is no
// longer there are recognised.
package bolt

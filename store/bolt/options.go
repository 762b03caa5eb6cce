package bolt

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
)

// Errors of files that cannot be used. Match them with [errors.Is]. Open does not write to such a
// file.
var (
	// ErrForeign reports a file that another program wrote.
	ErrForeign = errors.New("the file is not a store of this driver")
	// ErrFormat reports a file with a format version that this driver does not know.
	ErrFormat = errors.New("the format version of the file is not supported")
	// ErrCorrupt reports a damaged file. See [Options.Check] and [Options.NewEpoch].
	ErrCorrupt = errors.New("the file is damaged, restore a backup")
)

// Options tunes a [Store]. A nil *Options and zero fields mean the defaults. Negative numbers are
// [store.ErrInvalid].
type Options struct {
	// Wait bounds how long Open waits for another process to release the file. By default Open
	// does not wait and returns [store.ErrInUse]. It retries every 50 ms.
	Wait time.Duration

	// Retain is the number of changes of keys that stay available to watches and to listings of
	// the past. The default is 100,000. A few hundred more may be kept for a while. Each takes a
	// log entry in the file and, for an update or a deletion, the previous value.
	Retain int

	// NewEpoch starts a new history. Set it for the first opening after the file was restored
	// from a backup, and never otherwise.
	//
	// Commits made after the backup are lost, but clients still hold their revisions. So the
	// store takes a new epoch, advances its revision by 2^40, and compacts everything before. A
	// position with an epoch is then [store.ErrGone] because of its epoch. A bare revision of the
	// lost history is below the new one, unless more than 2^40 commits were lost: as a position
	// it is compacted and [store.ErrGone] too, and as a condition it matches no entry.
	NewEpoch bool

	// Check verifies the whole file before it is used: every page, every record against its
	// checksum, and all records against the digest of the last commit. Open returns [ErrCorrupt]
	// for a damaged file. The check takes a few seconds per gigabyte. Without it, damage is
	// detected only when a record is read, and lost records may go unnoticed (see
	// store/DESIGN.md).
	Check bool

	// Mode is the permissions of a file that Open creates. The default is 0600.
	Mode os.FileMode

	// openFile replaces os.OpenFile in tests.
	openFile func(name string, flag int, mode os.FileMode) (*os.File, error)
}

func (o Options) withDefaults() Options {
	o.Retain = cmp.Or(o.Retain, 100_000)
	o.Mode = cmp.Or(o.Mode, 0o600)
	if o.openFile == nil {
		o.openFile = os.OpenFile
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.Wait < 0:
		return fmt.Errorf("%w: Options.Wait is %v: it must not be negative", store.ErrInvalid, o.Wait)
	case o.Retain < 0:
		return fmt.Errorf("%w: Options.Retain is %d: it must not be negative", store.ErrInvalid, o.Retain)
	case o.Mode&^os.ModePerm != 0:
		return fmt.Errorf("%w: Options.Mode is %v: only permissions are allowed", store.ErrInvalid, o.Mode)
	}
	return nil
}

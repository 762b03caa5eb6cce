//go:build unix

package command

import (
	"io/fs"
	"os"
	"syscall"
)

func own(info fs.FileInfo) bool { return int(stat(info).Uid) == os.Geteuid() }

func ofRoot(info fs.FileInfo) bool { return stat(info).Uid == 0 }

// othersWrite reports whether others can write. The group of the user's own uid is the
// user alone, by the convention of user private groups.
func othersWrite(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	return mode&0o002 != 0 || mode&0o020 != 0 && int(stat(info).Gid) != os.Geteuid()
}

func stat(info fs.FileInfo) syscall.Stat_t {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return *s
	}
	return syscall.Stat_t{Uid: 1<<32 - 1, Gid: 1<<32 - 1} // nobody's: refused
}

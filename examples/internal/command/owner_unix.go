//go:build unix

package command

import (
	"io/fs"
	"os"
	"syscall"
)

func own(info fs.FileInfo) bool { return int(stat(info).Uid) == os.Geteuid() }

func ofRoot(info fs.FileInfo) bool { return stat(info).Uid == 0 }

// othersWrite reports whether other users can write. By the convention of user private
// groups, a group with the number of the user's uid contains only that user.
func othersWrite(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	return mode&0o002 != 0 || mode&0o020 != 0 && int(stat(info).Gid) != os.Geteuid()
}

func stat(info fs.FileInfo) syscall.Stat_t {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return *s
	}
	return syscall.Stat_t{Uid: 1<<32 - 1, Gid: 1<<32 - 1} // an unknown owner: refused
}

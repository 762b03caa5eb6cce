//go:build !unix

package command

import "io/fs"

// Package os does not expose owners and access lists on these systems.

func own(fs.FileInfo) bool    { return true }
func ofRoot(fs.FileInfo) bool { return true }

func othersWrite(fs.FileInfo) bool { return false }

package document

import (
	"bytes"
	"hash/crc32"
)

// WithChecksum returns value with a version and a checksum that match.
func WithChecksum(value []byte) []byte {
	value = bytes.Clone(value)
	if len(value) >= deletingAt {
		value[versionAt] = Version
		putHex(value[checksumAt:deletingAt], uint64(crc32.Checksum(value[deletingAt:], castagnoli)))
	}
	return value
}

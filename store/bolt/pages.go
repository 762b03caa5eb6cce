package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
)

// The layout of the engine's file: pages with a header (id, flags, count, overflow);
// two meta pages; one list of free pages; a tree of branches and leaves for the root
// bucket, whose leaves hold the roots of the other buckets.
const (
	pageHeader   = 16
	metaSize     = 64
	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketEntry  = 0x01 // the flag of a leaf element
	bucketHeader = 16
	noFreelist   = math.MaxUint64
	deepest      = 64 // bound of the levels of a tree; a deeper tree has a cycle
)

// Uses of a page.
const (
	pageUnknown byte = iota
	pageUsed
	pageLeaf // overflow pages may follow
	pageFree
)

// pageCheck checks the pages of a file before the engine reads it. The engine trusts
// its pages: a wrong reference makes it loop, read foreign memory, or overwrite pages in
// use.
type pageCheck struct {
	file io.ReaderAt
	size uint64 // of a page
	deep bool   // read leaves, too
	uses []byte // by page
}

// checkPages checks that every page of the file is either free or used once, and that the keys of
// branches are in order. If deep is set, it checks leaves too.
func checkPages(file io.ReaderAt, fileSize int64, pageSize int, deep bool) error {
	c := &pageCheck{file: file, size: uint64(pageSize), deep: deep}
	meta, err := c.meta()
	if err != nil {
		return err
	}
	root, freelist, pages := native64(meta[16:]), native64(meta[32:]), native64(meta[40:])
	if pages > uint64(fileSize)/c.size {
		return fmt.Errorf("%w: it has %d bytes instead of %d pages of %d bytes", ErrCorrupt, fileSize, pages, pageSize)
	}
	c.uses = make([]byte, pages)
	if err := c.use(0, 2, pageUsed); err != nil {
		return err
	}
	if freelist != noFreelist {
		if err := c.free(freelist); err != nil {
			return err
		}
	}
	if err := c.tree(root, true); err != nil {
		return err
	}
	for id := range c.uses {
		if c.uses[id] != pageUnknown {
			continue
		}
		if c.uses[id-1] != pageLeaf { // it is not an overflow page of an unread leaf
			return c.wrong(uint64(id), "is neither used nor free")
		}
		c.uses[id] = pageLeaf
	}
	return nil
}

func native64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
func native32(b []byte) uint64 { return uint64(binary.NativeEndian.Uint32(b)) }
func native16(b []byte) uint64 { return uint64(binary.NativeEndian.Uint16(b)) }

func (c *pageCheck) wrong(id uint64, format string, args ...any) error {
	return fmt.Errorf("%w: page %d %s", ErrCorrupt, id, fmt.Sprintf(format, args...))
}

// meta returns the newer of the intact meta pages, as the engine does.
func (c *pageCheck) meta() (newest []byte, err error) {
	for slot := range uint64(2) {
		b := make([]byte, metaSize)
		if _, err := c.file.ReadAt(b, int64(slot*c.size+pageHeader)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		sum := fnv.New64a()
		_, _ = sum.Write(b[:56]) // never fails
		if sum.Sum64() == native64(b[56:]) && (newest == nil || native64(b[48:]) > native64(newest[48:])) {
			newest = b
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("%w: both meta pages are damaged", ErrCorrupt)
	}
	return newest, nil
}

// use records the use of n pages, starting at id.
func (c *pageCheck) use(id, n uint64, kind byte) error {
	for ; n > 0; n, id = n-1, id+1 {
		switch {
		case id >= uint64(len(c.uses)):
			return c.wrong(id, "is referred to, but the file has only %d pages", len(c.uses))
		case c.uses[id] != pageUnknown:
			return c.wrong(id, "is used twice")
		}
		c.uses[id] = kind
	}
	return nil
}

// read returns the pages at id and their flags, and records the pages as used.
func (c *pageCheck) read(id uint64) (page []byte, flags uint64, err error) {
	if err := c.use(id, 1, pageUsed); err != nil {
		return nil, 0, err
	}
	header := make([]byte, pageHeader)
	if _, err := c.file.ReadAt(header, int64(id*c.size)); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if self := native64(header); self != id {
		return nil, 0, c.wrong(id, "claims to be page %d", self)
	}
	overflow := native32(header[12:])
	if err := c.use(id+1, overflow, pageUsed); err != nil {
		return nil, 0, err
	}
	page = make([]byte, (1+overflow)*c.size)
	if _, err := c.file.ReadAt(page, int64(id*c.size)); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return page, native16(header[8:]), nil
}

// free reads the list of free pages.
func (c *pageCheck) free(id uint64) error {
	page, flags, err := c.read(id)
	if err != nil {
		return err
	}
	count, list := native16(page[10:]), page[pageHeader:]
	if count == math.MaxUint16 {
		count, list = native64(list), list[8:]
	}
	if flags != freelistPage || count > uint64(len(list)/8) {
		return c.wrong(id, "is no list of free pages")
	}
	for ; count > 0; count, list = count-1, list[8:] {
		if err := c.use(native64(list), 1, pageFree); err != nil {
			return err
		}
	}
	return nil
}

// tree checks the tree at root. All leaves of a tree have the same depth.
func (c *pageCheck) tree(root uint64, buckets bool) error {
	depth := 0
	for id := root; ; depth++ {
		b := make([]byte, pageHeader+16) // with the first element of a branch
		if depth > deepest || id >= uint64(len(c.uses)) {
			return c.wrong(id, "is referred to as part of a tree")
		}
		if _, err := c.file.ReadAt(b, int64(id*c.size)); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if native16(b[8:]) != branchPage {
			break
		}
		id = native64(b[pageHeader+8:])
	}
	return c.node(root, depth, nil, nil, buckets)
}

// node checks the page id of a tree. Its keys must be at least low and less than high; nil
// means no bound. level is the distance to the leaves.
func (c *pageCheck) node(id uint64, level int, low, high []byte, buckets bool) error {
	if level == 0 && !c.deep && !buckets {
		return c.use(id, 1, pageLeaf)
	}
	page, flags, err := c.read(id)
	if err != nil {
		return err
	}
	if level == 0 {
		if flags != leafPage {
			return c.wrong(id, "is no leaf (flags %#x)", flags)
		}
		return c.leaf(id, page, low, high, buckets)
	}
	count := native16(page[10:])
	if flags != branchPage || count == 0 {
		return c.wrong(id, "is no branch (flags %#x, %d elements)", flags, count)
	}
	keys := make([][]byte, count)
	for i := range keys {
		e := pageHeader + uint64(i)*16
		if keys[i] = c.key(page, e, 16, 0, 4, 0); keys[i] == nil {
			return c.wrong(id, "has a damaged element %d", i)
		}
		if i == 0 && low != nil && bytes.Compare(keys[i], low) < 0 ||
			i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 || high != nil && bytes.Compare(keys[i], high) >= 0 {
			return c.wrong(id, "has its key %d out of order", i)
		}
	}
	for i := range keys {
		end := high
		if i+1 < len(keys) {
			end = keys[i+1]
		}
		if err := c.node(native64(page[pageHeader+i*16+8:]), level-1, keys[i], end, buckets); err != nil {
			return err
		}
	}
	return nil
}

// key returns the key of an element of the given size at offset e. It returns nil if the key, or
// the value of value bytes after it, exceeds the page. pos and size are the offsets of the fields
// that hold the position and size of the key.
func (c *pageCheck) key(page []byte, e, element, pos, size, value uint64) []byte {
	if e+element > uint64(len(page)) {
		return nil
	}
	start := e + native32(page[e+pos:])
	end := start + native32(page[e+size:])
	if end+value > uint64(len(page)) || start < e+element {
		return nil
	}
	return page[start:end:end]
}

// leaf checks the elements of a leaf.
func (c *pageCheck) leaf(id uint64, page, low, high []byte, buckets bool) error {
	var last []byte
	for i := range native16(page[10:]) {
		e := pageHeader + i*16
		if e+16 > uint64(len(page)) {
			return c.wrong(id, "has a damaged element %d", i)
		}
		flags, size := native32(page[e:]), native32(page[e+12:])
		key := c.key(page, e, 16, 4, 8, size)
		if key == nil || flags != 0 && !(buckets && flags == bucketEntry) {
			return c.wrong(id, "has a damaged element %d", i)
		}
		if i == 0 && low != nil && bytes.Compare(key, low) < 0 ||
			i > 0 && bytes.Compare(last, key) >= 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return c.wrong(id, "has its key %d out of order", i)
		}
		last = key
		if flags != bucketEntry {
			continue
		}
		start := e + native32(page[e+4:]) + uint64(len(key))
		if err := c.bucket(id, page[start:start+size]); err != nil {
			return err
		}
	}
	return nil
}

// bucket checks a bucket: its header names the root of its tree, or a small leaf
// follows the header.
func (c *pageCheck) bucket(id uint64, value []byte) error {
	if len(value) < bucketHeader {
		return c.wrong(id, "has a damaged bucket")
	}
	if root := native64(value); root != 0 {
		return c.tree(root, false)
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader || native16(inline[8:]) != leafPage {
		return c.wrong(id, "has a damaged bucket")
	}
	return c.leaf(id, inline, nil, nil, false)
}

package audit

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace/internal/keypath"
	"github.com/nslifecycle/nslifecycle/store"
)

// layout builds the keys:
//
//	/{prefix}/.audit/{name}/{id}               a record
//	/{prefix}/.inventory/{name}/{id}/{page}    a part of its inventory, cut anywhere
type layout struct{ root string }

func newLayout(prefix string) (layout, error) {
	if err := keypath.Check("Options.Prefix", prefix); err != nil {
		return layout{}, fmt.Errorf("audit: %w", err)
	}
	return layout{"/" + prefix + "/"}, nil
}

func (l layout) records(name string) string     { return l.root + ".audit/" + name + "/" }
func (l layout) record(name, id string) string  { return l.records(name) + id }
func (l layout) inventories(name string) string { return l.root + ".inventory/" + name + "/" }
func (l layout) pages(name, id string) string   { return l.inventories(name) + id + "/" }
func (l layout) page(name, id string, n int) string {
	return fmt.Sprintf("%s%08d", l.pages(name, id), n)
}

// pageSize returns the number of bytes of an inventory in one entry.
func pageSize(keys layout, limits store.Limits) int {
	size := 512 << 10
	if limits.Value > 0 {
		size = min(size, limits.Value)
	}
	if limits.Bytes > 0 {
		longest := len(keys.page(strings.Repeat("n", syntax.MaxSubdomain), newID(time.Time{}), 0))
		size = min(size, limits.Bytes-longest)
	}
	return max(size, 1)
}

// entry is the stored form of a record. Its inventory is in separate pages.
type entry struct {
	Record
	Pages int `json:"pages,omitempty"` // number of the pages of the inventory
	Bytes int `json:"bytes,omitempty"` // total size of the pages
}

func (e entry) encode() ([]byte, error) {
	e.Inventory = nil
	return json.Marshal(e)
}

// entry returns the stored form of r and the pages of its inventory.
func (l *Log) entry(r Record) (entry, [][]byte, error) {
	e := entry{Record: r}
	if r.Inventory == nil {
		return e, nil, nil
	}
	data, err := json.Marshal(r.Inventory)
	if err != nil {
		return entry{}, nil, invalid(r.Namespace, "the inventory cannot be encoded: %v", err)
	}
	e.Objects, e.Failures, e.Bytes = len(r.Inventory.Objects), len(r.Inventory.Failures), len(data)
	var pages [][]byte
	for len(data) > 0 {
		n := min(l.page, len(data))
		pages = append(pages, data[:n:n])
		data = data[n:]
	}
	e.Pages = len(pages)
	return e, pages, nil
}

// stamp is the format of the time in an ID. Its width is fixed, so keys sort by time. Clocks
// differ, so that is not always the order of the commits.
const stamp = "20060102T150405.000000000Z"

const randomBytes = 8

// newID returns a new ID for a record of that time.
func newID(at time.Time) string {
	var b [randomBytes]byte
	rand.Read(b[:]) // never fails
	return at.UTC().Format(stamp) + "-" + hex.EncodeToString(b[:])
}

// timeOf returns the time in id, and false if id is not an ID.
func timeOf(id string) (time.Time, bool) {
	text, random, ok := strings.Cut(id, "-")
	if !ok || len(text) != len(stamp) || len(random) != 2*randomBytes || strings.Trim(random, "0123456789abcdef") != "" {
		return time.Time{}, false
	}
	at, err := time.Parse(stamp, text)
	return at, err == nil
}

// MaxChanges is the maximum size of a stored record with changes, in bytes.
const MaxChanges = 64 << 10

// fit encodes a record with changes in at most room bytes. It cuts values, those above 4 KiB
// always, and then omits the last changes and says so in Detail. It returns false if not
// even one change fits.
func fit(r Record, room int) (Record, []byte, bool, error) {
	try := func(r Record) ([]byte, bool, error) {
		value, err := (entry{Record: r}).encode()
		return value, err == nil && len(value) <= room, err
	}
	all := r.Changes
	for _, most := range [...]int{4096, 1024, 256, 64, 16} {
		r.Changes = cut(all, most)
		if value, fits, err := try(r); fits || err != nil {
			return r, value, fits, err
		}
	}
	for n := len(all) / 2; n > 0; n /= 2 {
		r.Changes = r.Changes[:n]
		r.Detail = fmt.Sprintf("%d more changes are omitted, because the store limits the size of this record", len(all)-n)
		if value, fits, err := try(r); fits || err != nil {
			return r, value, fits, err
		}
	}
	return r, nil, false, nil
}

// cut returns changes whose values are cut to most bytes.
func cut(changes []Change, most int) []Change {
	if len(changes) == 0 {
		return nil
	}
	short := make([]Change, len(changes))
	for i, c := range changes {
		short[i] = Change{Key: c.Key, Old: cutText(c.Old, most), New: cutText(c.New, most)}
	}
	return short
}

func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}

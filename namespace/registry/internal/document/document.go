// Package document encodes stored objects: JSON whose first field is a header. Any JSON tool
// can read the stored values.
//
//	{"#":"<header>","kind":"Widget","apiVersion":"v1","metadata":{...},"spec":...}
//
// The header repeats the metadata that the registry needs most often, and records where the
// parts of the value are. A read can therefore return JSON, match a label selector or check a
// uid without decoding JSON. The metadata have no resourceVersion, which is the revision of
// the entry; [Document.AppendJSON] inserts it.
//
// The header is text. Numbers of fixed width are hexadecimal:
//
//	version    1 byte, [Version]
//	checksum   8 digits, CRC-32C of everything that follows
//	deleting   1 digit, 1 if metadata.deletionTimestamp is set
//	splice     8 digits, offset in the value at which the resourceVersion is inserted
//	metadata   8 and 8 digits, begin and end of the metadata in the value
//	strings    kind, apiVersion, uid
//	list       metadata.finalizers: strings
//	list       metadata.labels: key and value strings, sorted by key
//	list       the other top-level fields in order: sizes of `,"name":` and of the value
//
// A size or a list begins with a decimal number and a colon. A string is its size and its
// bytes, escaped as in JSON.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
)

// Version is the version of the encoding.
const Version = '1'

const (
	prefix     = `{"#":"`
	versionAt  = len(prefix)
	checksumAt = versionAt + 1
	deletingAt = checksumAt + 8
	spliceAt   = deletingAt + 1
	beginAt    = spliceAt + 8
	endAt      = beginAt + 8
	variableAt = endAt + 8
	suffix     = `",` // after the header
)

// placeholder marks where the resourceVersion belongs. The fields before it in
// [namespace.Meta] are strings, which cannot contain it: JSON escapes their quotes.
const placeholder = `,"resourceVersion":"0"`

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged is the cause of an error about a value that is not an encoded document.
var ErrDamaged = errors.New("damaged document")

// Field is a top-level field besides kind, apiVersion and metadata.
type Field struct {
	Name  string
	Value json.RawMessage // compact JSON; empty means null
}

// AppendFields appends the fields in m to fields, which must be empty, sorted by name.
func AppendFields(fields []Field, m map[string]json.RawMessage) []Field {
	for name, value := range m {
		fields = append(fields, Field{name, value})
	}
	if len(fields) > 1 {
		slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	}
	return fields
}

// Encode encodes an object. The uid must not be empty. Encode ignores meta.ResourceVersion.
// Equal objects with fields in the same order have equal encodings.
func Encode(t namespace.TypeMeta, meta namespace.Meta, fields []Field) ([]byte, error) {
	if meta.UID == "" {
		return nil, errors.New("the object has no uid")
	}
	meta.ResourceVersion = "0"
	metadata, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	splice := bytes.Index(metadata, []byte(placeholder)) // always found: there is a uid
	metadata = append(metadata[:splice], metadata[splice+len(placeholder):]...)

	header := variableAt + 64 + len(meta.UID) + 16*len(fields)
	for _, name := range meta.Finalizers.All() {
		header += len(name) + 4
	}
	for key, value := range meta.Labels {
		header += len(key) + len(value) + 8
	}
	buf := make([]byte, variableAt, header+sizeOf(t, metadata, fields))
	copy(buf, prefix)
	buf = appendStrings(buf, t.Kind, t.APIVersion, meta.UID)
	buf = appendSize(buf, meta.Finalizers.Len())
	for _, name := range meta.Finalizers.All() {
		buf = appendStrings(buf, string(name))
	}
	buf = appendSize(buf, len(meta.Labels))
	var few [8]string // on the stack
	for _, key := range appendSortedKeys(few[:0], meta.Labels) {
		buf = appendStrings(buf, key, meta.Labels[key])
	}
	buf = appendSize(buf, len(fields))
	for _, f := range fields {
		buf = appendSize(buf, len(`,"":`)+escapedLen(f.Name))
		buf = appendSize(buf, len(f.value()))
	}
	buf = appendTypeMeta(append(buf, suffix...), t)
	begin := len(buf)
	buf = append(buf, metadata...)
	end := len(buf)
	buf = appendFields(buf, fields)
	if uint64(len(buf)) > math.MaxUint32 {
		return nil, fmt.Errorf("the object has %d bytes, which is too large to store", len(buf))
	}

	deleting := uint64(0)
	if !meta.DeletionTimestamp.IsZero() {
		deleting = 1
	}
	buf[versionAt] = Version
	putHex(buf[deletingAt:spliceAt], deleting)
	putHex(buf[spliceAt:beginAt], uint64(begin+splice))
	putHex(buf[beginAt:endAt], uint64(begin))
	putHex(buf[endAt:variableAt], uint64(end))
	putHex(buf[checksumAt:deletingAt], uint64(crc32.Checksum(buf[deletingAt:], castagnoli)))
	return buf, nil
}

// appendSortedKeys appends the keys of m to keys, which must be empty.
func appendSortedKeys(keys []string, m map[string]string) []string {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func putHex(buf []byte, v uint64) {
	for i := len(buf) - 1; i >= 0; i-- {
		buf[i] = "0123456789abcdef"[v&0xf]
		v >>= 4
	}
}

// JSON returns the JSON form of an object: kind, apiVersion, metadata, then the other fields.
func JSON(t namespace.TypeMeta, meta namespace.Meta, fields []Field) ([]byte, error) {
	metadata, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	buf := append(make([]byte, 0, sizeOf(t, metadata, fields)), '{')
	buf = append(appendTypeMeta(buf, t), metadata...)
	return appendFields(buf, fields), nil
}

func sizeOf(t namespace.TypeMeta, metadata []byte, fields []Field) int {
	size := len(metadata) + 2*(len(t.Kind)+len(t.APIVersion)) + 64
	for _, f := range fields {
		size += len(f.Name) + len(f.Value) + 8
	}
	return size
}

func appendTypeMeta(buf []byte, t namespace.TypeMeta) []byte {
	if t.Kind != "" {
		buf = append(appendQuoted(append(buf, `"kind":`...), t.Kind), ',')
	}
	if t.APIVersion != "" {
		buf = append(appendQuoted(append(buf, `"apiVersion":`...), t.APIVersion), ',')
	}
	return append(buf, `"metadata":`...)
}

func appendFields(buf []byte, fields []Field) []byte {
	for _, f := range fields {
		buf = append(appendQuoted(append(buf, ','), f.Name), ':')
		buf = append(buf, f.value()...)
	}
	return append(buf, '}')
}

func (f Field) value() []byte {
	if len(f.Value) == 0 {
		return []byte("null")
	}
	return f.Value
}

func appendQuoted(buf []byte, s string) []byte {
	return append(appendEscaped(append(buf, '"'), s), '"')
}

// appendEscaped appends the contents of s as a JSON string.
func appendEscaped(buf []byte, s string) []byte {
	if plain(s) {
		return append(buf, s...)
	}
	quoted, _ := json.Marshal(s) // strings always encode
	return append(buf, quoted[1:len(quoted)-1]...)
}

// escapedLen returns the length of the contents of s as a JSON string.
func escapedLen(s string) int {
	if plain(s) {
		return len(s)
	}
	return len(appendEscaped(nil, s))
}

// plain reports whether s needs no escaping in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

func appendSize(buf []byte, n int) []byte {
	return append(strconv.AppendInt(buf, int64(n), 10), ':')
}

// appendStrings appends the size and the escaped bytes of each string.
func appendStrings(buf []byte, all ...string) []byte {
	for _, s := range all {
		buf = appendEscaped(appendSize(buf, escapedLen(s)), s)
	}
	return buf
}

// Document is a parsed value. It refers to the value, which must not change.
type Document struct {
	Deleting bool // metadata.deletionTimestamp is set

	value                 []byte
	body                  int // where the JSON continues after the header
	splice, begin, end    int
	kind, apiVersion, uid []byte
	finalizers            list
	labels                list
	fields                list
}

// list is a list in the header.
type list struct {
	n    int
	data []byte
}

// Parse reads a value that [Encode] made. It copies nothing and decodes no JSON. The error
// for any other value wraps [ErrDamaged].
func Parse(value []byte) (Document, error) {
	switch {
	case len(value) < variableAt || string(value[:versionAt]) != prefix:
		return Document{}, fmt.Errorf("%w: it has no header", ErrDamaged)
	case value[versionAt] != Version:
		return Document{}, fmt.Errorf("%w: its header has version %q, this build reads version %q", ErrDamaged, value[versionAt], Version)
	}
	checksum, ok := parseHex(value[checksumAt:deletingAt])
	if !ok || checksum != uint64(crc32.Checksum(value[deletingAt:], castagnoli)) {
		return Document{}, fmt.Errorf("%w: the checksum does not match", ErrDamaged)
	}
	r := reader{data: value[variableAt:]}
	d := Document{value: value, splice: r.hex(value[spliceAt:beginAt]), begin: r.hex(value[beginAt:endAt]), end: r.hex(value[endAt:variableAt])}
	d.Deleting = r.hex(value[deletingAt:spliceAt]) == 1
	d.kind, d.apiVersion, d.uid = r.string(), r.string(), r.string()
	d.finalizers = r.list(func() { r.string() })
	d.labels = r.list(func() { r.string(); r.string() })
	at := d.end
	d.fields = r.list(func() {
		key, value := r.size(), r.size()
		r.failed = r.failed || key < len(`,"":`)
		at += key + value
	})
	d.body = len(value) - len(r.data) + len(suffix)
	if r.failed || !bytes.HasPrefix(r.data, []byte(suffix)) || len(d.uid) == 0 ||
		d.body > d.begin || d.begin > d.splice || d.splice >= d.end || at != len(value)-1 {
		return Document{}, fmt.Errorf("%w: the header does not describe the object", ErrDamaged)
	}
	return d, nil
}

// parseHex parses lower-case digits.
func parseHex(digits []byte) (v uint64, ok bool) {
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// reader reads the variable part of a header, and the value after it.
type reader struct {
	data   []byte
	failed bool
}

func (r *reader) hex(digits []byte) int {
	v, ok := parseHex(digits)
	r.failed = r.failed || !ok
	return int(v)
}

// size reads a size, which is at most math.MaxInt32.
func (r *reader) size() int {
	n := 0
	for i, c := range r.data {
		switch {
		case c == ':' && i > 0:
			r.data = r.data[i+1:]
			return n
		case c < '0' || c > '9' || i == 10 || n > math.MaxInt32/10-1:
			r.failed = true
			return 0
		}
		n = n*10 + int(c-'0')
	}
	r.failed = true
	return 0
}

func (r *reader) string() []byte {
	n := r.size()
	if n > len(r.data) {
		r.failed = true
		return nil
	}
	s := r.data[:n:n]
	r.data = r.data[n:]
	return s
}

// list reads a list whose elements item reads.
func (r *reader) list(item func()) list {
	l := list{n: r.size(), data: r.data}
	for range l.n {
		if item(); r.failed {
			return list{}
		}
	}
	l.data = l.data[:len(l.data)-len(r.data)]
	return l
}

// unescape decodes a string of the header.
func unescape(s []byte) string {
	if bytes.IndexByte(s, '\\') < 0 {
		return string(s)
	}
	var out string
	if json.Unmarshal(slices.Concat([]byte{'"'}, s, []byte{'"'}), &out) != nil {
		return string(s) // only if a forged header has a valid checksum
	}
	return out
}

// UID returns metadata.uid.
func (d *Document) UID() string { return unescape(d.uid) }

// HasUID reports whether metadata.uid is uid.
func (d *Document) HasUID(uid string) bool { return string(d.uid) == uid || d.UID() == uid }

// TypeMeta returns kind and apiVersion.
func (d *Document) TypeMeta() namespace.TypeMeta {
	return namespace.TypeMeta{Kind: unescape(d.kind), APIVersion: unescape(d.apiVersion)}
}

// HasFinalizers reports whether metadata.finalizers has any.
func (d *Document) HasFinalizers() bool { return d.finalizers.n > 0 }

// Finalizers returns metadata.finalizers.
func (d *Document) Finalizers() []string {
	if d.finalizers.n == 0 {
		return nil
	}
	names := make([]string, d.finalizers.n)
	r := reader{data: d.finalizers.data}
	for i := range names {
		names[i] = unescape(r.string())
	}
	return names
}

// Labels clears m and copies metadata.labels into it.
func (d *Document) Labels(m map[string]string) {
	clear(m)
	all := string(d.labels.data) // one allocation for all keys and values
	r := reader{data: d.labels.data}
	next := func() string {
		s := r.string()
		if end := len(all) - len(r.data); bytes.IndexByte(s, '\\') < 0 {
			return all[end-len(s) : end]
		}
		return unescape(s)
	}
	for range d.labels.n {
		key := next()
		m[key] = next()
	}
}

// Meta decodes the metadata, without resourceVersion.
func (d *Document) Meta() (namespace.Meta, error) {
	var m namespace.Meta
	if err := json.Unmarshal(d.value[d.begin:d.end], &m); err != nil {
		return namespace.Meta{}, fmt.Errorf("%w: metadata: %w", ErrDamaged, err)
	}
	return m, nil
}

// Fields returns the top-level fields besides kind, apiVersion and metadata; nil if there are
// none. The values refer to the parsed value.
func (d *Document) Fields() (map[string]json.RawMessage, error) {
	if d.fields.n == 0 {
		return nil, nil
	}
	fields := make(map[string]json.RawMessage, d.fields.n)
	at := d.end
	r := reader{data: d.fields.data}
	for range d.fields.n {
		begin := at + r.size()
		end := begin + r.size()
		name, err := unquote(d.value[at+1 : begin-1])
		if err != nil {
			return nil, fmt.Errorf("%w: the name of a field: %w", ErrDamaged, err)
		}
		fields[name] = d.value[begin:end:end]
		at = end
	}
	return fields, nil
}

// unquote decodes a JSON string.
func unquote(quoted []byte) (string, error) {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(quoted, &s)
	return s, err
}

// Size returns an upper bound for the size of the JSON form of the object.
func (d *Document) Size() int {
	return len(d.value) - d.body + len(`{,"resourceVersion":"-9223372036854775808"`)
}

// AppendJSON appends the JSON form of the object at a revision to buf.
func (d *Document) AppendJSON(buf []byte, revision int64) []byte {
	buf = append(append(buf, '{'), d.value[d.body:d.splice]...)
	buf = append(buf, `,"resourceVersion":"`...)
	buf = strconv.AppendInt(buf, revision, 10)
	buf = append(buf, '"')
	return append(buf, d.value[d.splice:]...)
}

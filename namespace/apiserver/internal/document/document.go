// Package document serves documents that are encoded once and kept in memory, such as those
// of discovery: in the form that the client accepts, compressed if it accepts gzip, with an
// ETag.
package document

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/munnerz/goautoneg"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
)

// Media types.
const (
	JSON     = "application/json"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// Form is one encoding of a document. Use [NewForm] to create one. It is safe for
// concurrent use.
type Form struct {
	contentType string
	names       []goautoneg.Accept // media types that select the form
	load        func() (body, error)
}

// body is an encoded form; gzip is nil if compression does not help.
type body struct {
	plain, gzip []byte
	etag        string
}

// NewForm returns a form that encode makes when it is first needed. Clients select it by one
// of names, or by contentType if there are none.
func NewForm(contentType string, encode func() ([]byte, error), names ...string) *Form {
	if len(names) == 0 {
		names = []string{contentType}
	}
	f := &Form{contentType: contentType}
	for _, name := range names {
		f.names = append(f.names, goautoneg.ParseAccept(name)...)
	}
	f.load = sync.OnceValues(func() (body, error) {
		plain, err := encode()
		if err != nil {
			return body{}, err
		}
		sum := sha512.Sum512(plain)
		return body{plain: plain, gzip: compressed(plain), etag: strings.ToUpper(hex.EncodeToString(sum[:]))}, nil
	})
	return f
}

// Bytes returns the encoded document. The caller must not modify it.
func (f *Form) Bytes() ([]byte, error) {
	b, err := f.load()
	return b.plain, err
}

// Hash returns the ETag of the form without the quotes.
func (f *Form) Hash() (string, error) {
	b, err := f.load()
	return b.etag, err
}

func compressed(plain []byte) []byte {
	const packet = 1400 // a smaller document fits into one packet anyway
	if len(plain) < packet {
		return nil
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(plain)
	if err != nil || w.Close() != nil || out.Len() >= len(plain) {
		return nil
	}
	return out.Bytes()
}

// Serve answers GET and HEAD with the form that the client prefers; the first form is the
// default. If it returns an error, such as [codec.ErrNotAcceptable], it has written nothing.
func Serve(w http.ResponseWriter, r *http.Request, forms ...*Form) error {
	h := w.Header()
	h.Add("Vary", "Accept")
	form := choose(strings.Join(r.Header.Values("Accept"), ","), forms)
	if form == nil {
		types := make([]string, len(forms))
		for i, f := range forms {
			types[i] = f.contentType
		}
		return &namespace.Error{Kind: codec.ErrNotAcceptable, Message: "only the following media types are accepted: " + strings.Join(types, ", ")}
	}
	b, err := form.load()
	if err != nil {
		return err
	}
	out := b.plain
	if b.gzip != nil {
		h.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Values("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			out = b.gzip
		}
	}
	h.Set("ETag", strconv.Quote(b.etag))
	h.Set("Content-Type", form.contentType)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache, private")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(out))
	return nil
}

// choose returns the form that an Accept header prefers, or nil if none is acceptable.
func choose(accept string, forms []*Form) *Form {
	if strings.Trim(accept, ", ") == "" {
		return forms[0]
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, form := range forms {
			for _, name := range form.names {
				if clause.Q > 0 && covers(clause, name) {
					return form
				}
			}
		}
	}
	return nil
}

// covers reports whether a clause selects a form by name. The parameters that identify the
// kind of document must agree.
func covers(clause, name goautoneg.Accept) bool {
	if clause.Type == "*" {
		return len(name.Params) == 0
	}
	if !strings.EqualFold(clause.Type, name.Type) || clause.SubType != "*" && !strings.EqualFold(clause.SubType, name.SubType) {
		return false
	}
	for _, key := range []string{"g", "v", "as"} {
		if clause.Params[key] != name.Params[key] {
			return false
		}
	}
	return true
}

// acceptsGzip reports whether Accept-Encoding headers allow gzip.
func acceptsGzip(headers []string) bool {
	for part := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, q, weighted := strings.Cut(strings.ReplaceAll(part, " ", ""), ";q=")
		if strings.EqualFold(name, "gzip") {
			weight, err := strconv.ParseFloat(q, 64)
			return !weighted || err == nil && weight > 0
		}
	}
	return false
}

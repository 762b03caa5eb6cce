// Package document serves documents that were made once and are kept in memory,
// such as those of discovery: in the form that the Accept header asks for, with an
// ETag, and compressed for clients that take gzip.
package document

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Media types.
const (
	JSON     = "application/json"
	Protobuf = "application/vnd.kubernetes.protobuf"
)

// Form is one encoding of a document. Make one with [NewForm]. It is safe for
// concurrent use.
type Form struct {
	contentType string
	names       []Media
	load        func() (body, error)
}

// body is the bytes of a form; gzip is nil when it would not help.
type body struct {
	plain, gzip []byte
	etag        string
}

// smallest is the size from which on compressing is worth it, in bytes: less fits
// into one packet.
const smallest = 1400

// NewForm returns a form that is sent with the given content type to clients that
// accept one of names; none: the content type itself. It is encoded when it is
// first asked for.
func NewForm(contentType string, encode func() ([]byte, error), names ...string) *Form {
	if len(names) == 0 {
		names = []string{contentType}
	}
	f := &Form{contentType: contentType}
	for _, name := range names {
		f.names = append(f.names, Parse(name)...)
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

// Bytes returns the document in this form. It must not be changed.
func (f *Form) Bytes() ([]byte, error) {
	b, err := f.load()
	return b.plain, err
}

// Hash returns the hash of the document in this form: its ETag without the quotes.
func (f *Form) Hash() (string, error) {
	b, err := f.load()
	return b.etag, err
}

func compressed(plain []byte) []byte {
	if len(plain) < smallest {
		return nil
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(plain); err != nil {
		return nil
	}
	if err := w.Close(); err != nil || out.Len() >= len(plain) {
		return nil
	}
	return out.Bytes()
}

// Serve answers a request with the best of the forms, of which the first is the
// default: 406 when none is acceptable, 405 for other methods than GET and HEAD,
// 304 to a client that has it. Failures are a Status.
func Serve(w http.ResponseWriter, r *http.Request, forms ...*Form) {
	w.Header().Add("Vary", "Accept")
	if !Readable(w, r) {
		return
	}
	form := choose(r.Header.Values("Accept"), forms)
	if form == nil {
		NotAcceptable(w, forms)
		return
	}
	b, err := form.load()
	if err != nil {
		Fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "the document cannot be made: "+err.Error())
		return
	}
	form.send(w, r, b)
}

func (f *Form) send(w http.ResponseWriter, r *http.Request, b body) {
	etag := strconv.Quote(b.etag)
	w.Header().Set("ETag", etag)
	if w.Header().Get("Cache-Control") == "" {
		w.Header().Set("Cache-Control", "no-cache, private")
	}
	if has(r.Header.Values("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	out := b.plain
	if b.gzip != nil {
		w.Header().Add("Vary", "Accept-Encoding")
		if accepts(r.Header.Values("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			out = b.gzip
		}
	}
	write(w, r, http.StatusOK, f.contentType, out)
}

// Readable reports whether the request only reads; if not it is answered with 405.
func Readable(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	Fail(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
	return false
}

// NotAcceptable answers with 406.
func NotAcceptable(w http.ResponseWriter, forms []*Form) {
	var types []string
	for _, f := range forms {
		types = append(types, f.contentType)
	}
	Fail(w, http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+strings.Join(types, ", "))
}

// NotFound answers with 404.
func NotFound(w http.ResponseWriter) {
	Fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

// Fail answers with a Status.
func Fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Message: message, Code: int32(code),
	}
	out, err := json.Marshal(status)
	if err != nil {
		out = fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":%d}`, code)
	}
	w.Header().Del("Cache-Control") // what was meant for the document
	w.Header().Del("Expires")
	w.Header().Set("Content-Type", JSON)
	w.WriteHeader(code)
	_, _ = w.Write(out) // the client is gone: nobody is left to tell
}

func write(w http.ResponseWriter, r *http.Request, code int, contentType string, out []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(out)))
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(out) // the client is gone: nobody is left to tell
	}
}

// has reports whether one of the entity tags in an If-None-Match is etag.
func has(headers []string, etag string) bool {
	for _, header := range headers {
		for tag := range strings.SplitSeq(header, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// accepts reports whether an Accept-Encoding takes the coding.
func accepts(headers []string, coding string) bool {
	for _, header := range headers {
		for part := range strings.SplitSeq(header, ",") {
			name, q, weighted := strings.Cut(strings.ReplaceAll(part, " ", ""), ";q=")
			if strings.EqualFold(name, coding) {
				weight, err := strconv.ParseFloat(q, 64)
				return !weighted || err == nil && weight > 0
			}
		}
	}
	return false
}

package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/excerpt"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// answer answers with an object.
func (s *Server) answer(w http.ResponseWriter, r *request, code int, o registry.Object) error {
	body, err := s.codec.Object(r.format, r.Kind, o, r.table())
	if err != nil {
		return err
	}
	return s.send(w, r, code, body)
}

// succeed answers with a Status that says so.
func (s *Server) succeed(w http.ResponseWriter, r *request, d *metav1.StatusDetails) error {
	r.format = r.format.Plain()
	body, err := s.codec.Status(r.format, metav1.Status{Status: metav1.StatusSuccess, Details: d})
	if err != nil {
		return err
	}
	return s.send(w, r, http.StatusOK, body)
}

// send answers with a body in the format of the request.
func (s *Server) send(w http.ResponseWriter, r *request, code int, body []byte) error {
	write(w, code, r.format.ContentType(), body)
	return nil
}

// write sends an answer. If that fails the client is gone, and there is nobody
// left to tell.
func write(w http.ResponseWriter, code int, contentType string, body []byte) {
	head(w, code, contentType, len(body))
	w.Write(body)
}

// head sends the header of an answer.
func head(w http.ResponseWriter, code int, contentType string, size int) {
	h := w.Header()
	values := [2]string{contentType, strconv.Itoa(size)} // in one piece: every answer has them
	h["Content-Type"], h["Content-Length"] = values[0:1:1], values[1:2:2]
	h["Cache-Control"], h["X-Content-Type-Options"] = uncached, nosniff
	w.WriteHeader(code)
}

// headOfUnknownSize sends the header of an answer without a Content-Length.
func headOfUnknownSize(w http.ResponseWriter, code int, contentType string) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Content-Type-Options"] = []string{contentType}, uncached, nosniff
	w.WriteHeader(code)
}

// Values of headers that all answers share. Nobody changes them.
var (
	uncached = []string{"no-cache, private"}
	nosniff  = []string{"nosniff"}
)

// status returns the Status for err. Of an invalid object it names the kind, of
// everything else the resource, as Kubernetes does.
func (s *Server) status(err error) metav1.Status {
	st := failure(err)
	if st.Reason != metav1.StatusReasonInvalid || st.Details == nil {
		return st
	}
	for _, res := range s.resources {
		if res.Kind.Resource == st.Details.Kind && res.Kind.Group == st.Details.Group {
			st.Details.Kind = res.Kind.Kind
			break
		}
	}
	return st
}

// fail answers with the Status for err. When the client is gone that goes nowhere,
// and is not worth a line in the log.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	st := s.status(err)
	if st.Code >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.ErrorContext(r.Context(), "request failed", "method", excerpt.Of(r.Method), "path", excerpt.Of(r.URL.Path), "user", userOf(r), "code", st.Code, "error", err)
	}
	if e := exchangeOf(r.Context()); e != nil {
		e.reason = excerpt.Of(st.Message)
	}
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	format, err := s.codec.Negotiate(accept(r.Header), kinds.Kind{}, false)
	if err != nil {
		format = codec.Format{} // better in JSON than not at all
	}
	format = format.Plain()
	body, err := s.codec.Status(format, st)
	if err != nil {
		s.log.ErrorContext(r.Context(), "a status cannot be encoded", "error", err)
	}
	write(w, int(st.Code), format.ContentType(), body)
}

// userOf returns who sent a request, for the log.
func userOf(r *http.Request) string {
	if e := exchangeOf(r.Context()); e != nil {
		return excerpt.Of(e.route.User.Name)
	}
	return ""
}

// warn sends warnings in the header of an answer, as many as clients read.
func (s *Server) warn(w http.ResponseWriter, r *request, warnings []string) {
	const most, size = 20, 1000
	for _, text := range warnings[:min(len(warnings), most)] {
		text = strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return ' '
			}
			return c
		}, strings.ToValidUTF8(text[:min(len(text), size)], ""))
		header, err := utilnet.NewWarningHeader(299, "", text)
		if err != nil {
			s.log.WarnContext(r.Context(), "a warning cannot be sent", "warning", text, "error", err)
			continue
		}
		w.Header().Add("Warning", header)
	}
}

// body reads the body of a request, which [Limits] bound, and returns it with its type.
func (s *Server) body(w http.ResponseWriter, r *request) ([]byte, string, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, "", &apierrors.StatusError{ErrStatus: plain(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			fmt.Errorf("the body of the request has the content encoding %q: send it as it is", excerpt.Of(encoding)))}
	}
	if r.Header.Get("Content-Type") == "" && r.ContentLength != 0 && (r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "") {
		return nil, "", &apierrors.StatusError{ErrStatus: plain(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			errors.New("the body of a request that a browser sends needs a Content-Type, such as application/json"))}
	}
	if r.Body == nil { // of a request that came over no connection
		return nil, "", nil
	}
	if limit := s.options.Limits.Body; r.ContentLength > limit {
		return nil, "", &http.MaxBytesError{Limit: limit}
	}
	return s.receive(w, r)
}

// bodyFault returns what is wrong with a request whose body could not be read.
func bodyFault(err error) error {
	var large *http.MaxBytesError
	var known apierrors.APIStatus // it came too late
	if err == nil || errors.As(err, &large) || errors.As(err, &known) {
		return err
	}
	return apierrors.NewBadRequest("the body of the request cannot be read: " + err.Error())
}

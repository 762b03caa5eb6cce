package apiserver

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// answer sends an object.
func (s *Server) answer(w http.ResponseWriter, r *request, code int, o registry.Object) error {
	body, err := s.codec.Object(r.format, r.Kind, o, r.table())
	if err != nil {
		return err
	}
	s.send(w, r, code, body)
	return nil
}

// succeed sends a Status that reports success.
func (s *Server) succeed(w http.ResponseWriter, r *request, d *metav1.StatusDetails) error {
	r.format = r.format.Plain()
	body, err := s.codec.Status(r.format, metav1.Status{Status: metav1.StatusSuccess, Details: d})
	if err != nil {
		return err
	}
	s.send(w, r, http.StatusOK, body)
	return nil
}

// send sends a body in the format of the request.
func (s *Server) send(w http.ResponseWriter, r *request, code int, body []byte) {
	write(w, code, r.format.ContentType(), body)
}

// write sends an answer. The exchange records errors of the connection.
func write(w http.ResponseWriter, code int, contentType string, body []byte) {
	head(w, code, contentType, len(body))
	w.Write(body)
}

// head sends the header of an answer.
func head(w http.ResponseWriter, code int, contentType string, size int) {
	h := w.Header()
	values := [2]string{contentType, strconv.Itoa(size)} // one allocation for every answer
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

// Header values that all answers share.
var (
	uncached = []string{"no-cache, private"}
	nosniff  = []string{"nosniff"}
)

// status returns the Status for err. As in Kubernetes, it names the kind of an invalid object,
// and otherwise the resource.
func (s *Server) status(err error) metav1.Status {
	st := failure(err)
	if st.Reason != metav1.StatusReasonInvalid || st.Details == nil {
		return st
	}
	for _, res := range s.resources {
		if res.Kind.Resource == st.Details.Kind && res.Kind.Group == st.Details.Group {
			st.Details.Kind = res.Type.Kind
			break
		}
	}
	return st
}

// fail sends the Status for err. It logs failures of the server, unless the client is gone.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	st := s.status(err)
	if st.Code >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.ErrorContext(r.Context(), "request failed", "method", excerpt(r.Method), "path", excerpt(r.URL.Path), "user", userOf(r), "code", st.Code, "error", err)
	}
	exchangeOf(r.Context()).reason = excerpt(st.Message)
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	format, err := s.codec.Negotiate(accept(r.Header), kinds.Kind{}, false)
	if err != nil {
		format = codec.Format{} // the client accepts no format: JSON
	}
	format = format.Plain()
	body, err := s.codec.Status(format, st)
	if err != nil {
		s.log.ErrorContext(r.Context(), "a status cannot be encoded", "error", err)
	}
	write(w, int(st.Code), format.ContentType(), body)
}

// userOf returns the user of a request, for the log.
func userOf(r *http.Request) string { return excerpt(exchangeOf(r.Context()).route.User.Name) }

// warn adds warnings to the header of an answer. Clients read a limited number.
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

// body reads the body of a request within [Limits] and returns it with its content type.
func (s *Server) body(w http.ResponseWriter, r *request) ([]byte, string, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, "", unsupported("the body of the request has the content encoding %q: send it as it is", excerpt(encoding))
	}
	if r.Header.Get("Content-Type") == "" && r.ContentLength != 0 && (r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "") {
		return nil, "", unsupported("the body of a request that a browser sends needs a Content-Type, such as application/json")
	}
	if limit := s.options.Limits.Body; r.ContentLength > limit {
		return nil, "", &http.MaxBytesError{Limit: limit}
	}
	return s.receive(w, r)
}

// bodyFault returns the error for a body that could not be read.
func bodyFault(err error) error {
	var large *http.MaxBytesError
	var known apierrors.APIStatus // it arrived too late
	if err == nil || errors.As(err, &large) || errors.As(err, &known) {
		return err
	}
	return apierrors.NewBadRequest("the body of the request cannot be read: " + err.Error())
}

package apiserver

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patch answers PATCH.
func (s *Server) patch(_ http.ResponseWriter, r *request) error {
	return &apierrors.StatusError{ErrStatus: plain(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		fmt.Errorf("patches of the media type %q are not supported", clip(r.Header.Get("Content-Type"))))}
}

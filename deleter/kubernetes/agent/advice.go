package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// describe returns err in one line, with advice if there is any.
func describe(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if advice := advise(err); advice != "" {
		return fmt.Sprintf("%s (%s)", text, advice)
	}
	return text
}

// advise returns the next step for the operator, or "".
func advise(err error) string {
	text := err.Error() + unexpectedResponse(err)
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var host *net.DNSError
	switch {
	case apierrors.IsUnauthorized(err):
		return "the API server rejects the credentials: check the token or certificate in the kubeconfig"
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "grant this permission to the agent's user"
	case errors.As(err, &certificate):
		return "the kubeconfig does not trust the server's certificate: check certificate-authority-data"
	case strings.Contains(text, "HTTP response to HTTPS client"):
		return "the server speaks plain HTTP: use http:// in its address"
	case errors.As(err, &record):
		return "the server does not speak TLS: check its address"
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		return "the server speaks TLS: use https:// in its address"
	case isHTML(text):
		return "the server is not an API server, or a proxy answers for it: check its address"
	case errors.As(err, &host):
		return "no such host: check the server's address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no server listens at this address: check that the API server is running, and its address"
	}
	return ""
}

func isHTML(text string) bool {
	for _, sign := range []string{"text/html", "invalid character '<'", "<!doctype", "<html"} {
		if strings.Contains(strings.ToLower(text), sign) {
			return true
		}
	}
	return false
}

// unexpectedResponse returns the body of a response that no API server sends.
func unexpectedResponse(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	text := ""
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			text += cause.Message
		}
	}
	return text
}

// withoutDigits makes failures comparable that differ only in ports, times or counts.
func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

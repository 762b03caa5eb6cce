package main

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

// explain tells a failure of a request in one line, and what to do about it.
func explain(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if advice := advise(err); advice != "" {
		return fmt.Sprintf("%s (%s)", text, advice)
	}
	return text
}

// advise says what to do about err; empty when nothing is known.
func advise(err error) string {
	text := err.Error() + unexpected(err)
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var host *net.DNSError
	switch {
	case apierrors.IsUnauthorized(err):
		return "the API server refuses the credentials: see the token or the certificate in the kubeconfig"
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "grant it to the user whom the agent runs as"
	case errors.As(err, &certificate):
		return "the server's certificate is not one that the kubeconfig trusts: see its certificate-authority-data"
	case strings.Contains(text, "HTTP response to HTTPS client"):
		return "the server speaks plain HTTP: write http:// in its address"
	case errors.As(err, &record):
		return "the server does not speak TLS: see its address"
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		return "the server speaks TLS: write https:// in its address"
	case html(text):
		return "that is no API server, or a proxy answers for it: see its address"
	case errors.As(err, &host):
		return "there is no such host: see the server's address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there: is the API server running, is that its address?"
	}
	return ""
}

// html reports whether what answered spoke HTML.
func html(text string) bool {
	for _, sign := range []string{"text/html", "invalid character '<'", "<!doctype", "<html"} {
		if strings.Contains(strings.ToLower(text), sign) {
			return true
		}
	}
	return false
}

// unexpected returns what the server said if that is not what API servers say.
func unexpected(err error) string {
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

// alike tells failures apart, but not by ports, times and the like.
func alike(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

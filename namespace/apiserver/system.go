package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// system answers paths that are no resources: discovery, schemas, health.
func (s *Server) system(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	if probe := strings.TrimPrefix(path, "/"); probe == "healthz" || probe == "livez" || probe == "readyz" {
		return s.health(w, r, probe)
	}
	for _, documents := range []interface {
		http.Handler
		Serves(path string) bool
	}{s.discovery, s.schemas} {
		if documents.Serves(path) {
			documents.ServeHTTP(w, r)
			return nil
		}
	}
	return errNoSuchPath()
}

// isReady returns the reason why the store or the host cannot serve requests, or nil.
func (s *Server) isReady(ctx context.Context) error {
	if err := s.registry.Ping(ctx); err != nil || s.options.Ready == nil {
		return err
	}
	return s.options.Ready(ctx)
}

// health answers probes. Any answer shows that the process is alive.
func (s *Server) health(w http.ResponseWriter, r *http.Request, probe string) error {
	if err := readOnly(w, r); err != nil {
		return err
	}
	var report strings.Builder
	report.WriteString("[+]ping ok\n")
	code := http.StatusOK
	if probe == "readyz" && s.traffic.closed() {
		code = http.StatusInternalServerError
		report.WriteString("[-]shutdown failed: the server shuts down\n")
	}
	if probe == "readyz" {
		if err := s.ready.check(r.Context()); err != nil {
			s.log.WarnContext(r.Context(), "not ready", "error", err)
			code = http.StatusInternalServerError
			report.WriteString("[-]ready failed: reason withheld\n") // it is in the log: anybody may ask
		} else {
			report.WriteString("[+]ready ok\n")
		}
	}
	body := "ok"
	switch {
	case code != http.StatusOK:
		body = report.String() + probe + " check failed\n"
	case r.URL.Query().Has("verbose"):
		body = fmt.Sprintf("%s%s check passed\n", report.String(), probe)
	}
	write(w, code, "text/plain; charset=utf-8", []byte(body))
	return nil
}

// readOnly refuses methods that do not read.
func readOnly(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	w.Header().Set("Allow", "GET, HEAD")
	return errMethod()
}

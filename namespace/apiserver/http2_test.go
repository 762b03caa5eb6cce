package apiserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// secured is a server that runs Serve over TLS, with a client for it.
type secured struct {
	*env
	client *http.Client
	addr   string
	stop   context.CancelFunc
	ended  chan error // the result of Serve
}

// borrowed returns the certificate of httptest and a pool that trusts it.
func borrowed(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	from := httptest.NewUnstartedServer(nil)
	from.StartTLS()
	defer from.Close()
	return from.TLS.Certificates[0], from.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
}

// offering wraps l in a TLS listener that offers HTTP/2.
func offering(l net.Listener, certificate tls.Certificate) net.Listener {
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}})
}

// overTLS runs Serve with a TLS listener that offers HTTP/2, as the documentation recommends.
func overTLS(e *env) *secured {
	e.t.Helper()
	certificate, trust := borrowed(e.t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(e.t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(e.t.Context()))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, ForceAttemptHTTP2: true}
	s := &secured{env: e, client: &http.Client{Transport: transport}, addr: l.Addr().String(), stop: stop, ended: make(chan error, 1)}
	go func() { s.ended <- e.server.Serve(ctx, offering(l, certificate)) }()
	e.t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		<-s.ended
	})
	return s
}

// get sends a GET request, and fails the test unless the answer is 200 over HTTP/2.
func (s *secured) get(target string) *http.Response {
	s.t.Helper()
	answer, err := s.client.Get("https://" + s.addr + target)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { answer.Body.Close() })
	require.Equal(s.t, 2, answer.ProtoMajor)
	require.Equal(s.t, http.StatusOK, answer.StatusCode)
	return answer
}

// TestHTTP2 checks that a list and a watch work over HTTP/2, and that the end of Serve ends an
// open watch as a complete answer.
func TestHTTP2(t *testing.T) {
	s := overTLS(newEnv(t, nil))
	s.namespace("x")
	s.put("a", "1")
	watch := s.get(configmapsOfX + "?watch=true")
	frames := json.NewDecoder(watch.Body)
	var e event
	require.NoError(t, frames.Decode(&e))
	require.Equal(t, "ADDED a 1", e.String())
	list, err := io.ReadAll(s.get(configmapsOfX).Body)
	require.NoError(t, err)
	require.Contains(t, string(list), `"v":"1"`)
	s.put("a", "2")
	require.NoError(t, frames.Decode(&e))
	require.Equal(t, "MODIFIED a 2", e.String())
	s.stop()
	require.ErrorIs(t, frames.Decode(&e), io.EOF)
	err = <-s.ended
	require.NoError(t, err)
	s.ended <- nil
	_, err = s.client.Get("https://" + s.addr + "/livez")
	require.Error(t, err)
}

// TestHTTP2ConnectionThatTakesNothing checks that the server closes a connection whose client
// reads nothing. The pending bytes belong to the connection and not to a request, so the
// deadlines of requests do not cover them.
func TestHTTP2ConnectionThatTakesNothing(t *testing.T) {
	certificate, trust := borrowed(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWireOn(newEnv(t, nil), func(l net.Listener) net.Listener { return offering(l, certificate) })
		plain, _ := w.connect()
		c := tls.Client(plain, &tls.Config{RootCAs: trust, ServerName: "example.com", NextProtos: []string{"h2"}})
		require.NoError(t, c.HandshakeContext(t.Context()))
		require.Equal(t, "h2", c.ConnectionState().NegotiatedProtocol)
		path := "/api/v1/namespaces?watch=true"
		request := "\x82\x87\x04" + string(rune(len(path))) + path + "\x01\x01x" // GET, https, host x
		say(t, c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+
			"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+ // empty SETTINGS frame
			"\x00\x00"+string(rune(len(request)))+"\x01\x05\x00\x00\x00\x01"+request)
		time.Sleep(time.Hour)
		_, err := c.Write([]byte("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678")) // PING frame
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

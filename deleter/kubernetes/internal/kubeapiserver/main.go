// Kubeapiserver runs the API server of Kubernetes over an etcd in the same process, for tests of
// package kubernetes. It is a module of its own outside of the workspace, so that no other module
// inherits its requirements.
//
//	kubeapiserver DIRECTORY PORT
//
// It serves HTTPS on loopback, with a certificate that it writes into the directory. It knows two
// users by their tokens: admin, who may do everything, and guest, who may do what roles allow. It
// exits when its standard input ends, and thus with the test that started it.
package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const tokens = `admin,admin,admin,"system:masters"
guest,guest,guest
`

func main() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubeapiserver:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: kubeapiserver DIRECTORY PORT")
	}
	dir, port := args[0], args[1]
	storage, err := startEtcd(filepath.Join(dir, "etcd"))
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer storage.Close()
	key, users := filepath.Join(dir, "accounts.key"), filepath.Join(dir, "tokens.csv")
	if err := errors.Join(writeKey(key), os.WriteFile(users, []byte(tokens), 0o600)); err != nil {
		return err
	}
	server := app.NewAPIServerCommand()
	server.SetArgs([]string{
		"--etcd-servers=http://" + storage.Clients[0].Addr().String(),
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + filepath.Join(dir, "certificates"),
		"--token-auth-file=" + users, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--disable-admission-plugins=ServiceAccount", // no controller creates service accounts here
	})
	return server.Execute()
}

func startEtcd(dir string) (*embed.Etcd, error) {
	c := embed.NewConfig()
	c.Dir = dir
	c.UnsafeNoFsync = true // the data is temporary
	c.LogLevel = "error"
	c.EnableGRPCGateway = false
	anywhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenClientUrls, c.ListenPeerUrls = anywhere, anywhere
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		return nil, err
	case <-time.After(time.Minute):
		e.Close()
		return nil, errors.New("not ready within a minute")
	}
}

func writeKey(file string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(file, pem.EncodeToMemory(&block), 0o600)
}

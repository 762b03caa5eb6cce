package main

import (
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// name is the name of the cluster in a kubeconfig, and of the context without a user.
const name = "nslifecycle"

// writeKubeconfig writes a file for kubectl's --kubeconfig with a context for each user. The first
// user's is current. The file contains tokens, so only its owner can read it.
func writeKubeconfig(path, address string, a access) error {
	k := api.NewConfig()
	k.Clusters[name] = &api.Cluster{Server: address, CertificateAuthorityData: a.authority}
	for _, b := range a.bearers {
		k.AuthInfos[b.user.Name] = &api.AuthInfo{Token: b.token}
		k.Contexts[b.user.Name] = &api.Context{Cluster: name, AuthInfo: b.user.Name}
		if k.CurrentContext == "" {
			k.CurrentContext = b.user.Name
		}
	}
	if len(a.bearers) == 0 {
		k.Contexts[name] = &api.Context{Cluster: name}
		k.CurrentContext = name
	}
	text, err := clientcmd.Write(*k)
	if err != nil {
		return err
	}
	return replace(path, text)
}

// replace replaces a file atomically.
func replace(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it exists only after a failure
	_, err = f.Write(text)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/manifests"
)

// manifestFlags are the flags for objects from files or from a document at a URL.
type manifestFlags struct {
	from    []string // directories and URLs
	sources []manifests.Source
	node    string // the namespace of the objects
}

// check creates the sources. The namespace defaults to the name of the host.
func (m *manifestFlags) check() error {
	if len(m.from) == 0 {
		if m.node != "" {
			return errors.New("--node needs --manifests")
		}
		return nil
	}
	if m.node == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--node is needed: %w", err)
		}
		m.node = strings.ToLower(strings.ReplaceAll(host, ".", "-"))
	}
	if wrong := namespace.ValidateName(m.node); len(wrong) > 0 {
		return fmt.Errorf("--node is %q, which cannot be the name of a namespace: %s", m.node, wrong[0])
	}
	for _, from := range m.from {
		var source manifests.Source
		var err error
		if strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://") {
			source, err = manifests.URL(from, nil)
		} else {
			source, err = manifests.Directory(from, nil)
		}
		if err != nil {
			return fmt.Errorf("--manifests: %w", err)
		}
		m.sources = append(m.sources, source)
	}
	return nil
}

// syncers returns a syncer for each directory and URL.
func (m manifestFlags) syncers(b backend, log *slog.Logger) ([]*manifests.Syncer, error) {
	var list []*manifests.Syncer
	for _, source := range m.sources {
		syncer, err := manifests.New(b.service.Registry(), m.node, source, &manifests.Options{
			CreateNamespace: true, Kinds: b.kinds, Synced: synced(log.With("manifests", source.Name(), "namespace", m.node)),
		})
		if err != nil {
			return nil, fmt.Errorf("--manifests: %w", err)
		}
		list = append(list, syncer)
	}
	return list, nil
}

// synced returns a function that logs syncs with changes, and each failure once until it
// changes.
func synced(log *slog.Logger) func(manifests.Result, error) {
	last := ""
	return func(result manifests.Result, err error) {
		if result.Writes() > 0 {
			log.Info("manifests were applied", "created", result.Created, "updated", result.Updated, "deleted", result.Deleted)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		switch {
		case text == last:
		case err != nil:
			log.Warn("manifests cannot be applied, keeping their objects and retrying", "error", text)
		default:
			log.Info("manifests can be applied again")
		}
		last = text
	}
}

package store

import (
	_ "github.com/anishathalye/porcupine"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/stretchr/testify/require"
	_ "github.com/tidwall/btree"
	_ "go.etcd.io/bbolt"
	_ "go.uber.org/multierr"
	_ "golang.org/x/sync/errgroup"
)

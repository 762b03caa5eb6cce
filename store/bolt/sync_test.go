package bolt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nslifecycle/nslifecycle/store"
)

// seen is the result of a read of "a".
type seen struct {
	how, value string
	err        error
}

// readers reads "a" with each method, each in a goroutine of its own.
func readers(t *testing.T, s *Store, after store.Position) (reads, watched <-chan seen) {
	read, watch := make(chan seen, 2), make(chan seen, 1)
	go func() {
		e, err := s.Get(t.Context(), "a")
		read <- seen{"get", string(e.Value), err}
	}()
	go func() {
		p, err := s.List(t.Context(), store.Query{Limit: 1})
		var values []byte
		for _, e := range p.Entries {
			values = append(values, e.Value...)
		}
		read <- seen{"list", string(values), err}
	}()
	go func() { // all values up to 3
		all := seen{how: "watch"}
		for c, err := range s.Watch(t.Context(), "", after) {
			all.err = err
			for _, e := range c.Events {
				all.value += string(e.Value)
			}
			if err != nil || strings.HasSuffix(all.value, "3") {
				break
			}
		}
		watch <- all
	}()
	return read, watch
}

// The engine shows a commit to its readers before it has synced it. The store does not: a
// reader waits for the sync or, after its failure, for the file to be reopened. Otherwise a
// crash of the machine could lose a commit that a client has read, and give its revision to
// another one.
func TestReadsWaitForTheSync(t *testing.T) {
	const metas = 2 // the meta pages of the engine
	for name, c := range map[string]struct {
		fails error
		lost  bool // the commit is not in the file
		read  string
		watch string
	}{
		"synced":           {nil, false, "2", "123"},
		"failed, but kept": {errSync, false, "2", "123"},
		"failed and lost":  {errSync, true, "1", "13"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			synctest.Test(t, func(t *testing.T) {
				s := openAt(t, path, nil)
				put(t, s, "a", "0")
				before := listAt(t, s, store.Position{}).Position
				put(t, s, "a", "1")
				content, err := os.ReadFile(path)
				require.NoError(t, err)
				written, release := make(chan struct{}), make(chan struct{})
				goOn := sync.OnceFunc(func() { close(release) })
				defer goOn()
				s.commitTx = func(tx *bbolt.Tx) error {
					s.commitTx = (*bbolt.Tx).Commit
					err := tx.Commit()
					close(written)
					<-release
					if c.lost {
						file, openErr := os.OpenFile(path, os.O_WRONLY, 0)
						require.NoError(t, openErr)
						_, writeErr := file.WriteAt(content[:metas*os.Getpagesize()], 0)
						err = errors.Join(err, writeErr, file.Close())
					}
					return errors.Join(err, c.fails)
				}
				committed := make(chan error, 1)
				go func() {
					_, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("a", []byte("2"))}})
					committed <- err
				}()
				<-written
				reads, watched := readers(t, s, before)
				synctest.Wait()
				require.Empty(t, reads, "no read returns an unsynced commit")

				ctx, cancel := context.WithCancelCause(t.Context())
				left := make(chan error, 1)
				go func() { _, err := s.Get(ctx, "a"); left <- err }()
				synctest.Wait()
				cancel(errEnough)
				require.ErrorIs(t, <-left, errEnough, "a read ends with its context")

				goOn()
				if err := <-committed; c.fails != nil {
					require.ErrorIs(t, err, errSync)
					require.Equal(t, !c.lost, errors.Is(err, store.ErrUnknownOutcome), "%v", err)
				} else {
					require.NoError(t, err)
				}
				for range cap(reads) {
					r := <-reads
					require.NoError(t, r.err, r.how)
					require.Equal(t, c.read, r.value, r.how)
				}
				put(t, s, "a", "3")
				require.Equal(t, seen{"watch", c.watch, nil}, <-watched)
				checkFile(t, s)
				require.NoError(t, s.Close())
			})
		})
	}
}

// Reads do not see a commit before the hub has it. Otherwise a watch from a revision that was just
// read would be refused as ahead of the store, or its first bookmark would be behind.
func TestReadsAreNotAheadOfWatches(t *testing.T) {
	s := openNew(t, nil)
	const commits = 500
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range commits {
			if _, err := s.Commit(t.Context(), store.Txn{Do: []store.Operation{store.Put("a", nil)}}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for {
		var read store.Revision
		require.NoError(t, s.view(t.Context(), viewHead(func(h head) { read = h.revision })))
		require.LessOrEqual(t, read, s.hub.Position().Revision, "the revision read, against the published one")
		select {
		case <-done:
			return
		default:
		}
	}
}

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// get answers GET of one object, which is always read as it is now. A resource
// version says how new that must be at least.
func (s *Server) get(w http.ResponseWriter, r *request) error {
	if err := s.reached(r); err != nil {
		return err
	}
	if err := s.hold(r, reading); err != nil {
		return err
	}
	ctx := r.Context()
	if r.format == (codec.Format{}) {
		document, err := r.storage.getJSON(ctx, r.Namespace, r.Name)
		if err != nil {
			return err
		}
		if err := s.hold(r, rawCopies*int64(len(document))); err != nil {
			return err
		}
		if body, ok := s.codec.RawObject(r.format, document); ok {
			return s.send(w, r, http.StatusOK, body)
		}
	}
	o, err := r.storage.get(ctx, r.Namespace, r.Name)
	if err != nil {
		return err
	}
	if err := s.hold(r, r.encoding(o)); err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, o)
}

// reached waits until the store has come to the resource version of the query.
func (s *Server) reached(r *request) error {
	version := r.query.list.ResourceVersion
	if version == "" || version == "0" {
		return nil
	}
	return s.await(r, func(ctx context.Context) error {
		_, err := r.storage.listJSON(ctx, r.Namespace, registry.ListOptions{Limit: 1, ResourceVersion: version})
		return err
	})
}

// await repeats a read that is ahead of the store until that has caught up, or
// Limits.Wait is over.
func (s *Server) await(r *request, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.options.Limits.Wait)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := read(r.Context())
		if !errors.Is(err, store.ErrFuture) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if r.Context().Err() != nil {
				return context.Cause(r.Context())
			}
			return s.ahead(r, err)
		}
	}
}

// ahead is the answer for a resource version that the store has not come to: the
// one that the client named, which is not always the one that was looked for.
func (s *Server) ahead(r *request, cause error) error {
	now, err := r.storage.listJSON(r.Context(), r.Namespace, registry.ListOptions{Limit: 1})
	if err != nil {
		return cause
	}
	wanted, err := strconv.ParseInt(r.query.list.ResourceVersion, 10, 64)
	if err != nil {
		return cause // the position of a continue token
	}
	return &apierrors.StatusError{ErrStatus: tooLarge(fmt.Sprintf("Too large resource version: %d, current: %s", wanted, now.ResourceVersion))}
}

package apiserver

import (
	"context"
	"errors"
	"net/http"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/internal/codec"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// list answers a list. A page has at most Limits.Page objects, if the client asked
// for pages at all: others would take the first page for everything.
func (s *Server) list(w http.ResponseWriter, r *request) error {
	o := r.query.list
	if o.Limit > 0 && o.Continue == "" && r.query.resourceVersionMatch == "" && o.ResourceVersion != "" && o.ResourceVersion != "0" {
		o.Exact = true // what a list in pages from a version has always meant
	}
	o.Limit = min(o.Limit, s.options.Limits.Page)
	if r.format == (codec.Format{}) {
		return s.listRaw(w, r, o)
	}
	var list registry.ObjectList
	err := s.await(r, func(ctx context.Context) (err error) {
		list, err = r.storage.list(ctx, r.Namespace, o)
		return err
	})
	if err != nil {
		return err
	}
	body, err := s.codec.List(r.format, r.Kind, list, r.table())
	if err != nil {
		return err
	}
	return s.send(w, r, http.StatusOK, body)
}

// listRaw answers from the stored documents, without decoding them.
func (s *Server) listRaw(w http.ResponseWriter, r *request, o registry.ListOptions) error {
	var list registry.JSONList
	err := s.await(r, func(ctx context.Context) (err error) {
		list, err = r.storage.listJSON(ctx, r.Namespace, o)
		return err
	})
	if err != nil {
		return err
	}
	empty, ok := s.codec.RawList(r.format, r.Kind, list.ListMeta, nil)
	if !ok {
		return errors.New("the codec does not write plain JSON as it is stored")
	}
	s.sendItems(w, r, empty, list.Items)
	return nil
}

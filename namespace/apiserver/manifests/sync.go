package manifests

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/phase"
)

// sync syncs once. It reports whether the source or the registry failed.
func (s *Syncer) sync(ctx context.Context) (result Result, failed bool, err error) {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return Result{}, true, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return Result{}, true, context.Cause(ctx)
	}
	state, err := s.namespaceState(ctx)
	if err != nil {
		return Result{}, true, err
	}
	if state == terminating {
		return Result{Waiting: true}, false, nil
	}
	files, err := s.source.Read(ctx)
	if err != nil {
		return Result{}, true, fmt.Errorf("manifests: %s: %w: %w", s.options.Name, ErrSource, err)
	}
	if state == missing {
		created, err := s.createNamespace(ctx)
		if err != nil || !created {
			return Result{Waiting: err == nil}, err != nil, err
		}
	}
	rec := reconciliation{Syncer: s, wanted: map[string]document{}, unreadable: map[string]bool{}, inUse: map[string]bool{}}
	rec.decodeAll(files)
	if len(rec.wanted) > s.options.MaxObjects {
		err := fmt.Errorf("manifests: %s: %w: there are more than %d objects", s.options.Name, ErrDocument, s.options.MaxObjects)
		return rec.result, false, errors.Join(append(rec.problems, err)...)
	}
	failed, err = rec.run(ctx)
	return rec.result, failed, err
}

type namespaceState int

const (
	missing namespaceState = iota
	active
	terminating
)

func (s *Syncer) namespaceState(ctx context.Context) (namespaceState, error) {
	n, err := s.registry.Get(ctx, s.ns)
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		return missing, nil
	case err != nil:
		return missing, fmt.Errorf("manifests: %w", err)
	}
	s.seen = true
	if n.Phase() == phase.Terminating {
		return terminating, nil
	}
	return active, nil
}

// createNamespace creates the missing namespace and reports whether it exists now. It does not create
// a namespace that was seen before: a client has deleted it.
func (s *Syncer) createNamespace(ctx context.Context) (bool, error) {
	if !s.options.CreateNamespace || s.seen {
		return false, nil
	}
	_, err := s.registry.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: s.ns}})
	if err != nil && !errors.Is(err, namespace.ErrExists) {
		return false, fmt.Errorf("manifests: %w", err)
	}
	s.seen = true
	return true, nil
}

// reconciliation is the state of one sync.
type reconciliation struct {
	*Syncer
	wanted     map[string]document // by key
	unreadable map[string]bool     // files that could not be read
	inUse      map[string]bool     // files with existing objects
	stale      []stale
	result     Result
	problems   []error
}

// stale is an existing object that no document describes.
type stale struct {
	content *registry.Content
	key     string
	file    string
	meta    namespace.Meta
}

func (rec *reconciliation) problem(file, object string, err error) {
	rec.problems = append(rec.problems, &Problem{File: file, Object: object, Err: err})
}

// decodeAll decodes the files, unless the last sync decoded the same data.
func (rec *reconciliation) decodeAll(files []File) {
	before := rec.decoded
	rec.decoded = make(map[string]decoded, len(files))
	for _, f := range files {
		err := f.Err
		var documents []document
		if err == nil {
			d, known := before[f.Name]
			if sum := sha256.Sum256(f.Data); !known || d.sum != sum {
				d.sum = sum
				d.documents, d.err = rec.decode(f)
			}
			rec.decoded[f.Name] = d
			documents, err = d.documents, d.err
		}
		switch {
		case errors.Is(err, ErrChanging):
			rec.unreadable[f.Name] = true
			rec.result.Changing++
			continue
		case err != nil:
			rec.unreadable[f.Name] = true
			rec.problem(f.Name, "", err)
			continue
		}
		for _, d := range documents {
			if first, duplicate := rec.wanted[d.key()]; duplicate {
				rec.problem(f.Name, d.key(), fmt.Errorf("%w, in %q", ErrDuplicate, first.file))
				continue
			}
			rec.wanted[d.key()] = d
		}
	}
}

// errWaiting ends a sync of a namespace that is being deleted.
var errWaiting = errors.New("the namespace is being deleted")

// run updates the namespace's objects to match the documents. It reports whether the registry failed.
func (rec *reconciliation) run(ctx context.Context) (failed bool, err error) {
	switch err := rec.syncAll(ctx); {
	case errors.Is(err, errWaiting):
		rec.result.Waiting = true
		return false, nil
	case err != nil:
		return true, errors.Join(append(rec.problems, err)...)
	}
	return false, errors.Join(rec.problems...)
}

// syncAll updates existing objects, deletes stale ones, then creates missing ones: deletions may free
// quota for creations. It lists all objects before it deletes the first.
func (rec *reconciliation) syncAll(ctx context.Context) error {
	missing := maps.Clone(rec.wanted)
	for _, t := range rec.types.namespaced() {
		if err := rec.syncType(ctx, t, missing); err != nil {
			return err
		}
	}
	if err := rec.removeAll(ctx); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		if err := rec.create(ctx, key, missing[key]); err != nil {
			return err
		}
	}
	return nil
}

const pageSize = 500

// syncType compares all objects of a type with their documents, and removes their keys from missing.
func (rec *reconciliation) syncType(ctx context.Context, t registry.Type, missing map[string]document) error {
	content, err := rec.registry.Content(t.Name())
	if err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	existing := map[string]bool{}
	for o := (registry.ListOptions{Limit: pageSize}); ; {
		list, err := content.List(ctx, rec.ns, o)
		if err != nil {
			return fmt.Errorf("manifests: %w", err)
		}
		for _, object := range list.Items {
			key := keyOf(t, object.Name)
			existing[key] = true
			delete(missing, key)
			if err := rec.compare(ctx, content, key, object); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			break
		}
		o.Continue = list.Continue
	}
	for key := range rec.verified {
		if strings.HasPrefix(key, t.Name().String()+"/") && !existing[key] {
			if _, wanted := rec.wanted[key]; !wanted {
				delete(rec.verified, key)
			}
		}
	}
	return nil
}

// removeAll deletes the stale objects. If there is an unreadable file without existing objects, it
// deletes nothing: the file may be a renamed one and describe these objects.
func (rec *reconciliation) removeAll(ctx context.Context) error {
	for file := range rec.unreadable {
		if !rec.inUse[file] {
			rec.result.Kept += len(rec.stale)
			return nil
		}
	}
	for _, s := range rec.stale {
		if err := rec.remove(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// compare compares an existing object with its document:
//
//	document  owned  condition                          action
//	no        no                                        none
//	no        yes    its file is unreadable             keep
//	no        yes    it is being deleted                none
//	no        yes    otherwise                          delete later
//	yes       no                                        report ErrForeign
//	yes       yes    it is being deleted                wait
//	yes       yes    its file is unreadable, another    keep
//	                 file has the document
//	yes       yes    it matches the document            none
//	yes       yes    otherwise                          update
func (rec *reconciliation) compare(ctx context.Context, content *registry.Content, key string, o registry.Object) error {
	d, wanted := rec.wanted[key]
	m, ours := owned(rec.options.Name, key, o)
	if ours {
		rec.inUse[m.File] = true
	}
	switch {
	case !wanted && !ours:
		return nil
	case !wanted && rec.unreadable[m.File]:
		rec.result.Kept++
		return nil
	case !wanted && !o.DeletionTimestamp.IsZero():
		return nil
	case !wanted:
		rec.stale = append(rec.stale, stale{content, key, m.File, namespace.Meta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}})
		return nil
	case !ours:
		rec.problem(d.file, key, ErrForeign)
		return nil
	case !o.DeletionTimestamp.IsZero():
		rec.result.Deleting++
		return nil
	case rec.unreadable[m.File] && m.File != d.file:
		rec.result.Kept++
		return nil
	}
	if m.File == d.file && m.Hash == d.hash && (rec.verified[key] == verified{o.ResourceVersion, d.hash} || covers(o, d.object)) {
		rec.verified[key] = verified{o.ResourceVersion, d.hash}
		rec.result.Unchanged++
		return nil
	}
	return rec.update(ctx, content, key, d, o)
}

// markVerified records a written object as matching its document. If admission changed the object,
// later syncs do not write it again.
func (rec *reconciliation) markVerified(key string, d document, o registry.Object) {
	rec.verified[key] = verified{o.ResourceVersion, d.hash}
}

func (rec *reconciliation) create(ctx context.Context, key string, d document) error {
	content, err := rec.registry.Content(d.kind.Name())
	if err != nil {
		return fmt.Errorf("manifests: %w", err)
	}
	o, err := rec.marked(d.object, d)
	if err == nil {
		o, err = content.Create(ctx, rec.ns, o)
	}
	if err == nil {
		rec.markVerified(key, d, o)
		rec.result.Created++
		return nil
	}
	return rec.failure(ctx, d.file, key, err)
}

// marked returns a copy of o with the annotation for d.
func (rec *reconciliation) marked(o registry.Object, d document) (registry.Object, error) {
	text, err := mark{Source: rec.options.Name, File: d.file, Object: d.key(), Hash: d.hash}.text()
	o = o.DeepCopy()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[Annotation] = text
	return o, err
}

func (rec *reconciliation) update(ctx context.Context, content *registry.Content, key string, d document, old registry.Object) error {
	next, err := rec.marked(d.object, d)
	if err != nil {
		return rec.failure(ctx, d.file, key, err)
	}
	m, _ := owned(rec.options.Name, key, old)
	if m.Hash == d.hash { // the document has not changed: keep labels and annotations of other clients
		next.Labels = overlaid(old.Labels, next.Labels)
		next.Annotations = overlaid(old.Annotations, next.Annotations)
	}
	if status, has := old.Fields["status"]; has && next.Fields["status"] == nil {
		if next.Fields == nil {
			next.Fields = map[string]json.RawMessage{}
		}
		next.Fields["status"] = status
	}
	next.UID, next.ResourceVersion = old.UID, old.ResourceVersion
	next.Finalizers, next.ManagedFields = old.Finalizers, old.ManagedFields
	if len(next.OwnerReferences) == 0 {
		next.OwnerReferences = old.OwnerReferences
	}
	if err := validate(d.kind, &old, &next); err != nil {
		return rec.failure(ctx, d.file, key, err)
	}
	o, err := content.Update(ctx, rec.ns, next)
	if err != nil {
		return rec.failure(ctx, d.file, key, err)
	}
	rec.markVerified(key, d, o)
	rec.result.Updated++
	return nil
}

func overlaid(base, overlay map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		return overlay
	}
	maps.Copy(out, overlay)
	return out
}

func (rec *reconciliation) remove(ctx context.Context, s stale) error {
	_, err := s.content.Delete(ctx, rec.ns, s.meta.Name, namespace.Preconditions{UID: s.meta.UID, ResourceVersion: s.meta.ResourceVersion})
	if err != nil && !errors.Is(err, namespace.ErrNotFound) {
		return rec.failure(ctx, s.file, s.key, err)
	}
	delete(rec.verified, s.key)
	rec.result.Deleted++
	return nil
}

// failure classifies the error of a write. It returns errWaiting if the namespace is being deleted. It
// records a refusal as a problem and returns nil. Other errors end the sync.
func (rec *reconciliation) failure(ctx context.Context, file, key string, err error) error {
	var typed *namespace.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, namespace.ErrTerminating):
		return errWaiting
	case errors.As(err, &typed) && errors.Is(err, namespace.ErrNotFound) && typed.Resource == namespace.Resource:
		return errWaiting
	case errors.As(err, &typed):
		rec.problem(file, key, err)
		return nil
	}
	return fmt.Errorf("manifests: %s: %w", key, err)
}

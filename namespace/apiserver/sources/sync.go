package sources

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

// sync is one look. It reports whether the source or the registry failed as a whole.
func (s *Syncer) sync(ctx context.Context) (result Result, broken bool, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return Result{}, true, context.Cause(ctx)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, true, context.Cause(ctx)
	}
	there, err := s.look(ctx)
	if err != nil {
		return Result{}, true, err
	}
	if there == terminating {
		return Result{Waiting: true}, false, nil
	}
	files, err := s.source.Read(ctx)
	if err != nil {
		return Result{}, true, fmt.Errorf("sources: %s: %w: %w", s.name, ErrSource, err)
	}
	if there == missing {
		made, err := s.make(ctx)
		if err != nil || !made {
			return Result{Waiting: err == nil}, err != nil, err
		}
	}
	l := look{Syncer: s, wanted: map[string]document{}, bad: map[string]bool{}, gave: map[string]bool{}}
	l.decodeAll(files)
	if len(l.wanted) > s.options.MaxObjects {
		err := fmt.Errorf("sources: %s: %w: there are more than %d objects", s.name, ErrDocument, s.options.MaxObjects)
		return l.result, false, errors.Join(append(l.problems, err)...)
	}
	broken, err = l.run(ctx)
	return l.result, broken, err
}

// state is that of a namespace.
type state int

const (
	missing state = iota
	active
	terminating
)

func (s *Syncer) look(ctx context.Context) (state, error) {
	n, err := s.registry.Get(ctx, s.space)
	switch {
	case errors.Is(err, namespace.ErrNotFound):
		return missing, nil
	case err != nil:
		return missing, fmt.Errorf("sources: %w", err)
	}
	s.seen = true
	if n.Phase() == phase.Terminating {
		return terminating, nil
	}
	return active, nil
}

// make creates the namespace, unless it has been there already: then somebody has
// deleted it, and only somebody else may want it back. It reports whether it is there.
func (s *Syncer) make(ctx context.Context) (bool, error) {
	if !s.options.CreateNamespace || s.seen {
		return false, nil
	}
	_, err := s.registry.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: s.space}})
	if err != nil && !errors.Is(err, namespace.ErrExists) {
		return false, fmt.Errorf("sources: %w", err)
	}
	s.seen = true
	return true, nil
}

// look is the state of one look at the source.
type look struct {
	*Syncer
	wanted   map[string]document
	bad      map[string]bool // files that could not be read
	gave     map[string]bool // files that objects are from
	stale    []stale
	result   Result
	problems []error
}

// stale is an object that is there, and not wanted any more.
type stale struct {
	content *registry.Content
	key     string
	file    string
	meta    namespace.Meta // of what was looked at
}

func (l *look) problem(file, object string, err error) {
	l.problems = append(l.problems, &Problem{File: file, Object: object, Err: err})
}

// decodeAll finds out what is wanted.
func (l *look) decodeAll(files []File) {
	before := l.decoded
	l.decoded = make(map[string]decoded, len(files))
	for _, f := range files {
		err := f.Err
		var documents []document
		if err == nil {
			d, known := before[f.Name]
			if sum := sha256.Sum256(f.Data); !known || d.sum != sum {
				d.sum = sum
				d.documents, d.err = l.decode(f)
			}
			l.decoded[f.Name] = d
			documents, err = d.documents, d.err
		}
		switch {
		case errors.Is(err, ErrSettling):
			l.bad[f.Name] = true
			l.result.Settling++
			continue
		case err != nil:
			l.bad[f.Name] = true
			l.problem(f.Name, "", err)
			continue
		}
		for _, d := range documents {
			if first, twice := l.wanted[d.key()]; twice {
				l.problem(f.Name, d.key(), fmt.Errorf("%w, in %q", ErrDuplicate, first.file))
				continue
			}
			l.wanted[d.key()] = d
		}
	}
}

// errWaiting ends a look at a namespace that has come to be deleted.
var errWaiting = errors.New("the namespace is being deleted")

// run compares what is wanted with what is there, and makes it so. It reports
// whether the registry failed.
func (l *look) run(ctx context.Context) (broken bool, err error) {
	switch err := l.syncAll(ctx); {
	case errors.Is(err, errWaiting):
		l.result.Waiting = true
		return false, nil
	case err != nil:
		return true, errors.Join(append(l.problems, err)...)
	}
	return false, errors.Join(l.problems...)
}

// syncAll changes what is there, removes, then creates: what is removed may make room
// within a limit. Nothing is removed before all is known that there is.
func (l *look) syncAll(ctx context.Context) error {
	missing := maps.Clone(l.wanted)
	for _, t := range l.types.namespaced() {
		if err := l.syncType(ctx, t, missing); err != nil {
			return err
		}
	}
	if err := l.removeAll(ctx); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		if err := l.create(ctx, key, missing[key]); err != nil {
			return err
		}
	}
	return nil
}

// page is how many objects are read at once.
const page = 500

// syncType goes through all objects of a type, and takes from missing what is there.
func (l *look) syncType(ctx context.Context, t registry.ResourceType, missing map[string]document) error {
	content, err := l.registry.Content(t.Name())
	if err != nil {
		return fmt.Errorf("sources: %w", err)
	}
	there := map[string]bool{}
	for o := (registry.ListOptions{Limit: page}); ; {
		list, err := content.List(ctx, l.space, o)
		if err != nil {
			return fmt.Errorf("sources: %w", err)
		}
		for _, object := range list.Items {
			key := keyOf(t, object.Name)
			there[key] = true
			delete(missing, key)
			if err := l.compare(ctx, content, key, object); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			break
		}
		o.Continue = list.Continue
	}
	for key := range l.verified {
		if strings.HasPrefix(key, t.Name().String()+"/") && !there[key] {
			if _, wanted := l.wanted[key]; !wanted {
				delete(l.verified, key)
			}
		}
	}
	return nil
}

// removeAll deletes what is not wanted any more, unless there is a file that cannot be
// read and that no object is from: it may be where what seems to be gone has moved.
func (l *look) removeAll(ctx context.Context) error {
	for file := range l.bad {
		if !l.gave[file] {
			l.result.Kept += len(l.stale)
			return nil
		}
	}
	for _, s := range l.stale {
		if err := l.remove(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// compare holds an object that is there against what is wanted.
func (l *look) compare(ctx context.Context, content *registry.Content, key string, o registry.Object) error {
	d, wanted := l.wanted[key]
	m, ours := owned(l.name, key, o)
	if ours {
		l.gave[m.File] = true
	}
	switch {
	case !wanted && !ours:
		return nil
	case !wanted && l.bad[m.File]:
		l.result.Kept++
		return nil
	case !wanted && !o.DeletionTimestamp.IsZero():
		return nil
	case !wanted:
		l.stale = append(l.stale, stale{content, key, m.File, namespace.Meta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}})
		return nil
	case !ours:
		l.problem(d.file, key, ErrForeign)
		return nil
	case !o.DeletionTimestamp.IsZero():
		l.result.Dying++
		return nil
	case l.bad[m.File] && m.File != d.file: // the file that it is from may still have it
		l.result.Kept++
		return nil
	}
	if m.File == d.file && m.Hash == d.hash && (l.verified[key] == verified{o.ResourceVersion, d.hash} || covers(o, d.object)) {
		l.verified[key] = verified{o.ResourceVersion, d.hash}
		l.result.Unchanged++
		return nil
	}
	return l.update(ctx, content, key, d, o)
}

// made keeps in mind what an object has become, so that it is not written again if
// that is not exactly what was wanted: somebody on the way has decided so.
func (l *look) made(key string, d document, o registry.Object) {
	l.verified[key] = verified{o.ResourceVersion, d.hash}
}

func (l *look) create(ctx context.Context, key string, d document) error {
	content, err := l.registry.Content(d.kind.Name())
	if err != nil {
		return fmt.Errorf("sources: %w", err)
	}
	o, err := l.marked(d.object, d)
	if err == nil {
		o, err = content.Create(ctx, l.space, o)
	}
	if err == nil {
		l.made(key, d, o)
		l.result.Created++
		return nil
	}
	return l.failure(ctx, d.file, key, err)
}

// marked returns what is written for a document.
func (l *look) marked(o registry.Object, d document) (registry.Object, error) {
	text, err := mark{Source: l.name, File: d.file, Object: d.key(), Hash: d.hash}.text()
	o = o.DeepCopy()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[Annotation] = text
	return o, err
}

func (l *look) update(ctx context.Context, content *registry.Content, key string, d document, old registry.Object) error {
	next, err := l.marked(d.object, d)
	if err != nil {
		return l.failure(ctx, d.file, key, err)
	}
	m, _ := owned(l.name, key, old)
	if m.Hash == d.hash { // others have changed it: put back what the document says, and no more
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
		return l.failure(ctx, d.file, key, err)
	}
	o, err := content.Update(ctx, l.space, next)
	if err != nil {
		return l.failure(ctx, d.file, key, err)
	}
	l.made(key, d, o)
	l.result.Updated++
	return nil
}

func overlaid(below, above map[string]string) map[string]string {
	out := maps.Clone(below)
	if out == nil {
		return above
	}
	maps.Copy(out, above)
	return out
}

func (l *look) remove(ctx context.Context, s stale) error {
	_, err := s.content.Delete(ctx, l.space, s.meta.Name, namespace.Preconditions{UID: s.meta.UID, ResourceVersion: s.meta.ResourceVersion})
	if err != nil && !errors.Is(err, namespace.ErrNotFound) {
		return l.failure(ctx, s.file, s.key, err)
	}
	delete(l.verified, s.key)
	l.result.Deleted++
	return nil
}

// failure decides about a write that was not made: the namespace is on its way out,
// the object was refused, or the registry failed, and with it everything else.
func (l *look) failure(ctx context.Context, file, key string, err error) error {
	var typed *namespace.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, namespace.ErrTerminating):
		return errWaiting
	case errors.As(err, &typed) && errors.Is(err, namespace.ErrNotFound) && typed.Resource == namespace.Resource:
		return errWaiting
	case errors.As(err, &typed):
		l.problem(file, key, err)
		return nil
	}
	return fmt.Errorf("sources: %s: %w", key, err)
}

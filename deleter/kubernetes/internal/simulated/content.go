package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// Object is an object to [API.Put].
type Object struct {
	Name       string
	Finalizers []string
	// Held is how long after the deletion the finalizers remain. Zero: until [API.Release].
	Held time.Duration
	// Grace is the duration of a deletion without finalizers.
	Grace time.Duration
}

// contents is the content of one incarnation of a namespace, by type.
type contents []bucket

// bucket is the objects of one type in one namespace.
type bucket struct {
	mu      sync.Mutex
	objects []*object // sorted by name
	feed    feed[watch.Event]
}

// object is an object as stored. Its metadata are never changed, only replaced.
type object struct {
	meta        *metav1.PartialObjectMetadata
	held, grace time.Duration
}

func (a *API) bucket(namespace string, k *kind) *bucket {
	c, ok := a.rooms.Load(namespace)
	if !ok {
		return nil
	}
	return &c.(contents)[k.index]
}

// Put stores objects of the i-th type in a namespace, even in a terminating one, as a server with
// a stale cache may do. They replace objects of the same name. It returns false if the namespace
// does not exist.
func (a *API) Put(namespace string, i int, objects ...Object) bool {
	k := a.kinds[i]
	b := a.bucket(namespace, k)
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range objects {
		revision := a.next()
		meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, Namespace: namespace, UID: types.UID(fmt.Sprint("uid-", revision)), ResourceVersion: decimal(revision),
			CreationTimestamp: metav1.Now(), Finalizers: slices.Clone(o.Finalizers),
		}}
		at, found := b.find(o.Name)
		if found {
			b.objects = slices.Delete(b.objects, at, at+1)
		}
		b.objects = slices.Insert(b.objects, at, &object{meta: meta, held: o.Held, grace: o.Grace})
		b.feed.add(revision, watch.Event{Type: watch.Added, Object: meta})
	}
	return true
}

// Release removes the finalizers of an object of the i-th type.
func (a *API) Release(namespace string, i int, name string) {
	b := a.bucket(namespace, a.kinds[i])
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.find(name); ok {
		b.release(a, at)
	}
}

// Objects returns the number of objects in a namespace.
func (a *API) Objects(namespace string) int {
	n := 0
	for _, k := range a.kinds {
		if b := a.bucket(namespace, k); b != nil {
			b.mu.Lock()
			n += len(b.objects)
			b.mu.Unlock()
		}
	}
	return n
}

func (b *bucket) find(name string) (int, bool) {
	return slices.BinarySearchFunc(b.objects, name, func(o *object, name string) int { return strings.Compare(o.meta.Name, name) })
}

// changed returns a copy of the object's metadata at a new revision.
func (o *object) changed(a *API) (*metav1.PartialObjectMetadata, uint64) {
	meta, revision := *o.meta, a.next()
	meta.ResourceVersion = decimal(revision)
	return &meta, revision
}

func (b *bucket) release(a *API, at int) {
	o := b.objects[at]
	meta, revision := o.changed(a)
	meta.Finalizers = nil
	o.meta = meta
	if meta.DeletionTimestamp != nil {
		b.objects = slices.Delete(b.objects, at, at+1)
		b.feed.add(revision, watch.Event{Type: watch.Deleted, Object: meta})
		return
	}
	b.feed.add(revision, watch.Event{Type: watch.Modified, Object: meta})
}

// delete deletes an object or marks it as deleted. It reports whether the object remains.
func (b *bucket) delete(a *API, o *object) (stays bool) {
	if o.meta.DeletionTimestamp != nil {
		return true
	}
	meta, revision := o.changed(a)
	o.meta = meta
	if len(meta.Finalizers) == 0 && o.grace <= 0 {
		b.feed.add(revision, watch.Event{Type: watch.Deleted, Object: meta})
		return false
	}
	grace, until := int64(o.grace/time.Second), metav1.NewTime(time.Now().Add(o.grace))
	meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = &until, &grace
	b.feed.add(revision, watch.Event{Type: watch.Modified, Object: meta})
	if d := max(o.held, o.grace); d > 0 && (len(meta.Finalizers) == 0 || o.held > 0) {
		time.AfterFunc(d, func() { b.end(a, o) })
	}
	return true
}

// end removes an object after its grace or Held.
func (b *bucket) end(a *API, o *object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.find(o.meta.Name); ok && b.objects[at] == o {
		b.release(a, at)
	}
}

// Metadata returns the client of content.
func (a *API) Metadata() metadata.Interface { return client{a} }

type client struct{ *API }

// Resource implements [metadata.Interface].
func (c client) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	return getter{content{api: c.API, kind: c.index[gvr]}}
}

type getter struct{ content }

// Namespace implements [metadata.Getter].
func (g getter) Namespace(namespace string) metadata.ResourceInterface {
	g.namespace = namespace
	return g.content
}

// content is one type in one namespace. The embedded interface is nil: other methods panic.
type content struct {
	metadata.ResourceInterface
	api       *API
	kind      *kind // nil if the type does not exist
	namespace string
}

// at returns the locked bucket for a request, or nil if the namespace does not exist.
func (c content) at(ctx context.Context, verb Verb, name string) (*bucket, error) {
	if err := c.api.callKind(ctx, c.kind, verb, c.namespace, name); err != nil {
		return nil, err
	}
	b := c.api.bucket(c.namespace, c.kind)
	if b != nil {
		b.mu.Lock()
	}
	return b, nil
}

// Get implements [metadata.ResourceInterface].
func (c content) Get(ctx context.Context, name string, _ metav1.GetOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	b, err := c.at(ctx, Get, name)
	if err != nil {
		return nil, err
	}
	if b != nil {
		defer b.mu.Unlock()
		if at, ok := b.find(name); ok {
			return b.objects[at].meta.DeepCopy(), nil
		}
	}
	return nil, apierrors.NewNotFound(c.kind.group(), name)
}

// List implements [metadata.ResourceInterface]. The token of a page is its last name.
func (c content) List(ctx context.Context, opts metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	b, err := c.at(ctx, List, "")
	if err != nil {
		return nil, err
	}
	list := new(metav1.PartialObjectMetadataList)
	if b == nil {
		list.ResourceVersion = decimal(c.api.revision.Load())
		return list, nil
	}
	defer b.mu.Unlock()
	list.ResourceVersion = decimal(c.api.revision.Load())
	from := 0
	if opts.Continue != "" {
		at, found := b.find(opts.Continue)
		from = at
		if found {
			from++
		}
	}
	objects := b.objects[from:]
	if opts.Limit > 0 && int64(len(objects)) > opts.Limit {
		rest := int64(len(objects)) - opts.Limit
		objects = objects[:opts.Limit]
		list.Continue, list.RemainingItemCount = objects[len(objects)-1].meta.Name, &rest
	}
	list.Items = make([]metav1.PartialObjectMetadata, len(objects))
	for i, o := range objects {
		o.meta.DeepCopyInto(&list.Items[i])
	}
	return list, nil
}

// Delete implements [metadata.ResourceInterface].
func (c content) Delete(ctx context.Context, name string, opts metav1.DeleteOptions, _ ...string) error {
	b, err := c.at(ctx, Delete, name)
	if err != nil {
		return err
	}
	if b == nil {
		return apierrors.NewNotFound(c.kind.group(), name)
	}
	defer b.mu.Unlock()
	at, ok := b.find(name)
	if !ok {
		return apierrors.NewNotFound(c.kind.group(), name)
	}
	o := b.objects[at]
	if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != o.meta.UID {
		return apierrors.NewConflict(c.kind.group(), name, fmt.Errorf("%s: UID in precondition: %v, UID in object meta: %v",
			"Precondition failed", *p.UID, o.meta.UID))
	}
	if !b.delete(c.api, o) {
		b.objects = slices.Delete(b.objects, at, at+1)
	}
	return nil
}

// Patch implements [metadata.ResourceInterface] for merge patches of finalizers. A uid and a
// resource version in the patch are preconditions.
func (c content) Patch(
	ctx context.Context, name string, of types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*metav1.PartialObjectMetadata, error) {
	b, err := c.at(ctx, Patch, name)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, apierrors.NewNotFound(c.kind.group(), name)
	}
	defer b.mu.Unlock()
	at, ok := b.find(name)
	if !ok {
		return nil, apierrors.NewNotFound(c.kind.group(), name)
	}
	var patch metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &patch); err != nil || of != types.MergePatchType {
		return nil, apierrors.NewBadRequest("only merge patches of metadata are understood")
	}
	o := b.objects[at]
	if patch.UID != "" && patch.UID != o.meta.UID || patch.ResourceVersion != "" && patch.ResourceVersion != o.meta.ResourceVersion {
		return nil, apierrors.NewConflict(c.kind.group(), name, errors.New("the object has been modified"))
	}
	if len(patch.Finalizers) == 0 {
		b.release(c.api, at)
		return o.meta.DeepCopy(), nil
	}
	meta, revision := o.changed(c.api)
	meta.Finalizers = patch.Finalizers
	o.meta = meta
	b.feed.add(revision, watch.Event{Type: watch.Modified, Object: meta})
	return meta.DeepCopy(), nil
}

// DeleteCollection implements [metadata.ResourceInterface].
func (c content) DeleteCollection(ctx context.Context, _ metav1.DeleteOptions, _ metav1.ListOptions) error {
	b, err := c.at(ctx, DeleteCollection, "")
	if err != nil || b == nil {
		return err
	}
	defer b.mu.Unlock()
	b.objects = slices.DeleteFunc(b.objects, func(o *object) bool { return !b.delete(c.api, o) })
	return nil
}

// Watch implements [metadata.ResourceInterface].
func (c content) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	b, err := c.at(ctx, Watch, "")
	if err != nil {
		return nil, err
	}
	if b == nil {
		return quiet(ctx), nil
	}
	defer b.mu.Unlock()
	return b.feed.watch(ctx, opts.ResourceVersion, &b.mu, func(e watch.Event) (watch.Event, bool) {
		return watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}, true
	})
}

package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/deleter/kubernetes"
)

// Content on Kubernetes' own API server conforms to the suite for sources too.
func TestKubernetesContentConforms(t *testing.T) {
	config := realKubernetes(t, "admin")
	for _, c := range []struct {
		what        string
		options     kubernetes.Options
		collections bool
	}{
		{"collections", kubernetes.Options{Recheck: -1}, true},
		{"one by one with old looks", kubernetes.Options{OneByOne: true, Recheck: time.Hour}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			contenttest.Run(t, func(t *testing.T) contenttest.Backend {
				b := newWorld(t, config).contents(c.options)
				b.Collections = c.collections
				return b
			})
		})
	}
}

// contents returns a backend of config maps for the suite, which inspects them through typed
// clients.
func (w *world) contents(o kubernetes.Options) contenttest.Backend {
	cluster, err := kubernetes.ForConfig(w.config, &o)
	require.NoError(w, err)
	content, err := cluster.Content(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "list", "delete", "deletecollection", "watch")
	require.NoError(w, err)
	namespaces := w.client.CoreV1().Namespaces()
	seed := func(ctx context.Context, name string, list []contenttest.Object) (*corev1.Namespace, error) {
		w.Cleanup(func() { require.NoError(w, w.remove(context.WithoutCancel(ctx), name)) })
		if err := w.remove(ctx, name); err != nil {
			return nil, err
		}
		if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		for _, o := range list {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Finalizers: o.Finalizers}}
			if err := w.createConfigMap(ctx, name, o); err != nil {
				return nil, err
			}
		}
		return namespaces.Get(ctx, name, metav1.GetOptions{})
	}
	return contenttest.Backend{
		Content: content,
		Seed: func(ctx context.Context, name string, list ...contenttest.Object) (deleter.Target, error) {
			if _, err := seed(ctx, name, list); err != nil {
				return deleter.Target{}, err
			}
			if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return deleter.Target{}, err
			}
			ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return deleter.Target{}, err
			}
			return deleter.Target{Namespace: name, UID: string(ns.UID), DeletedAt: ns.DeletionTimestamp.Time}, nil
		},
		SeedActive: func(ctx context.Context, name string, list ...contenttest.Object) (deleter.Target, error) {
			ns, err := seed(ctx, name, list)
			if err != nil {
				return deleter.Target{}, err
			}
			return deleter.Target{Namespace: name, UID: string(ns.UID), DeletedAt: time.Now()}, nil
		},
		Names: func(ctx context.Context, target deleter.Target) ([]string, error) {
			return w.configMapNames(ctx, target.Namespace)
		},
		Release: func(ctx context.Context, target deleter.Target, name string) error {
			return w.releaseConfigMap(ctx, target.Namespace, name)
		},
		UIDs: true, Notifies: true, Views: true,
	}
}

// createConfigMap creates an object in an active namespace. Kubernetes checks creates against a
// cache, which may still have the terminating namespace of that name. createConfigMap waits until
// it is up to date.
func (w *world) createConfigMap(ctx context.Context, ns string, o *corev1.ConfigMap) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := w.client.CoreV1().ConfigMaps(ns).Create(ctx, o, metav1.CreateOptions{})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return false, nil
		}
		return err == nil, err
	})
}

func (w *world) configMapNames(ctx context.Context, ns string) ([]string, error) {
	names := []string{}
	list, err := w.client.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	return names, nil
}

func (w *world) releaseConfigMap(ctx context.Context, ns, name string) error {
	o, err := w.client.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	o.Finalizers = nil
	_, err = w.client.CoreV1().ConfigMaps(ns).Update(ctx, o, metav1.UpdateOptions{})
	return err
}

// remove removes a namespace with everything in it, if it exists.
func (w *world) remove(ctx context.Context, name string) error {
	namespaces := w.client.CoreV1().Namespaces()
	err := namespaces.Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil && !apierrors.IsConflict(err) {
		return err // the second deletion returns a conflict
	}
	names, err := w.configMapNames(ctx, name)
	if err != nil {
		return err
	}
	for _, object := range names {
		if err := w.client.CoreV1().ConfigMaps(name).Delete(ctx, object, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := w.releaseConfigMap(ctx, name, object); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ns.Spec.Finalizers = nil
	_, err = namespaces.Finalize(ctx, ns, metav1.UpdateOptions{})
	return err
}

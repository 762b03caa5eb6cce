package conformance

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	cluster "github.com/nslifecycle/nslifecycle/deleter/kubernetes"
)

// grant creates the roles and bindings of a file, as kubectl apply would.
func (w *world) grant(file string) {
	w.Helper()
	f, err := os.Open(file)
	require.NoError(w, err)
	defer f.Close()
	for documents := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var object map[string]any
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(w, err)
		body, err := json.Marshal(object)
		require.NoError(w, err)
		var o metav1.PartialObjectMetadata
		require.NoError(w, json.Unmarshal(body, &o))
		path := "/apis/" + o.APIVersion
		if o.APIVersion == "v1" {
			path = "/api/v1"
		}
		if o.Namespace != "" {
			path += "/namespaces/" + o.Namespace
		}
		err = w.client.RESTClient().Post().AbsPath(path+"/"+strings.ToLower(o.Kind)+"s").
			SetHeader("Content-Type", "application/json").Body(body).Do(w.Context()).Error()
		if !apierrors.IsAlreadyExists(err) { // created by an earlier run
			require.NoError(w, err)
		}
	}
}

// The permissions in the agent's documentation are sufficient for finding, emptying, reporting and
// finalizing, and for the lease. Kubernetes itself checks them.
func TestKubernetesPermissions(t *testing.T) {
	w := newWorld(t, realKubernetes(t, "admin"))
	w.grant("../../agent/permissions.yaml")
	account := rest.CopyConfig(w.config)
	account.Impersonate.UserName = "system:serviceaccount:kube-system:nslifecycle"
	control(t, account, "example.com/account", &cluster.Options{Wait: -1})

	ns := w.namespace(unique("permissions"), "example.com/account", "example.com/keep")
	w.configMaps(ns.Name, 2)
	w.hold(ns.Name)
	ns = w.await(w.delete(ns.Name), saying("Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"))
	w.letGo(ns.Name)
	w.await(ns, func(_ watch.EventType, ns *corev1.Namespace) bool {
		return !slices.Contains(ns.Spec.Finalizers, "example.com/account")
	})
	w.force(ns.Name)

	client, err := kubernetes.NewForConfig(account)
	require.NoError(t, err)
	leases := client.CoordinationV1().Leases("kube-system")
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: unique("lease")}}, metav1.CreateOptions{})
	require.NoError(t, err)
	lease, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "the permissions allow more: %v", err)
}

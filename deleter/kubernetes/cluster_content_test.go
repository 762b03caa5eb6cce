package kubernetes

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

// A host can compose its own deleter from the content of single types, without discovery.
func TestContentOfOneType(t *testing.T) {
	a := newAPI(t, pod("a"), pod("b"))
	clients := Clients{Namespaces: a.spaces, Metadata: a.content, Resources: func(context.Context) ([]*metav1.APIResourceList, error) {
		t.Error("discovery")
		return nil, nil
	}}
	cluster, err := New(clients, nil)
	require.NoError(t, err)
	content, err := cluster.Content(podsType.gvr, "list", "delete", "watch", "patch")
	require.NoError(t, err)
	d, err := deleter.New([]deleter.Source{{Resource: podsResource, Content: content}}, nil)
	require.NoError(t, err)
	report, err := d.Delete(t.Context(), a.target, deleter.Report{})
	require.NoError(t, err)
	require.True(t, report.Empty())
	require.Empty(t, a.names())
	require.NotContains(t, a.asked(), "DELETE x/pods", "collections are not among the verbs")
}

func TestBadInputOfContentOfOneType(t *testing.T) {
	a := newAPI(t)
	clients := Clients{Namespaces: a.spaces, Metadata: a.content, Resources: func(context.Context) ([]*metav1.APIResourceList, error) { return nil, nil }}
	cluster, err := New(clients, &Options{Except: []namespace.ResourceType{{Name: "secrets"}}, ExceptGroups: []string{"computed.example.com"}})
	require.NoError(t, err)
	for _, c := range []struct {
		gvr   schema.GroupVersionResource
		verbs string
		says  string
	}{
		{schema.GroupVersionResource{}, "list delete", "resource name"},
		{schema.GroupVersionResource{Resource: "pods"}, "list delete", "version"},
		{schema.GroupVersionResource{Version: "v1/..", Resource: "pods"}, "list delete", "version"},
		{schema.GroupVersionResource{Version: "v1", Resource: "pods/../secrets"}, "list delete", "resource name"},
		{schema.GroupVersionResource{Group: "a/b", Version: "v1", Resource: "pods"}, "list delete", "resource group"},
		{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "list watch", "neither delete nor deletecollection"},
		{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "", "neither delete nor deletecollection"},
		{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "list delete", "excluded by the options"},
		{schema.GroupVersionResource{Group: "computed.example.com", Version: "v1", Resource: "pods"}, "list delete", "excluded by the options"},
	} {
		_, err := cluster.Content(c.gvr, strings.Fields(c.verbs)...)
		require.ErrorIs(t, err, deleter.ErrInvalid, "%v", c.gvr)
		require.ErrorContains(t, err, c.says)
	}
	require.Empty(t, a.asked())
}

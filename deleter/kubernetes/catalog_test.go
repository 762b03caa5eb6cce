package kubernetes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
)

func target() deleter.Target {
	return deleter.Target{Namespace: "n", UID: "uid-of-n", DeletedAt: time.Unix(1, 0)}
}

// nowhere returns clients for which only discovery works.
func nowhere(resources func(context.Context) ([]*metav1.APIResourceList, error)) Clients {
	return Clients{
		Namespaces: struct {
			corev1client.NamespaceInterface
		}{},
		Metadata:  struct{ metadata.Interface }{fake.NewSimpleMetadataClient(fake.NewTestScheme())},
		Resources: resources,
	}
}

// A discovery that answers is progress of each pass that waits for it.
func TestDiscoveryIsProgress(t *testing.T) {
	var failure error
	cluster, err := New(nowhere(func(context.Context) ([]*metav1.APIResourceList, error) {
		return []*metav1.APIResourceList{served("v1", "pods")}, failure
	}), nil)
	require.NoError(t, err)
	progress := 0
	ctx := deleter.WithTrace(t.Context(), &deleter.Trace{End: func(_ context.Context, _ deleter.Call, result deleter.CallResult) {
		if result.Err == nil {
			progress++
		}
	}})
	_, err = cluster.deleter.catalog.fresh(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, progress)
	failure = errors.New("down")
	_, err = cluster.deleter.catalog.fresh(ctx)
	require.ErrorIs(t, err, failure)
	require.Equal(t, 1, progress)
}

// The knowledge about types outlives discoveries, but not changes of the types themselves.
func TestKnowledgeOutlivesDiscoveries(t *testing.T) {
	var lists []*metav1.APIResourceList
	cluster, err := New(nowhere(func(context.Context) ([]*metav1.APIResourceList, error) { return lists, nil }), nil)
	require.NoError(t, err)
	c := cluster.deleter.catalog
	discover := func(types ...*metav1.APIResourceList) *snapshot {
		t.Helper()
		lists = types
		v, err := c.fresh(t.Context())
		require.NoError(t, err)
		require.Same(t, v, c.latest())
		return v
	}
	first := discover(served("v1", "pods"), served("example.com/v1", "widgets"))
	same := discover(served("example.com/v1", "widgets"), served("v1", "pods"))
	require.Same(t, first.typeSet, same.typeSet)
	require.False(t, same.began.Before(first.began))

	more := discover(served("v1", "pods", "secrets"), served("example.com/v1", "widgets"))
	require.NotSame(t, same.typeSet, more.typeSet)
	require.Same(t, first.composed, more.composed)
	require.Same(t, first.sources[0].Content, more.sources[0].Content)
	require.Len(t, more.sources, 3)

	fewer := discover(served("v1", "pods"))
	require.Same(t, first.composed, fewer.composed)

	changed := discover(served("v1", "pods=list,delete", "secrets"))
	require.NotSame(t, first.composed, changed.composed)
	require.NotSame(t, first.sources[0].Content, changed.sources[0].Content)

	for i, s := range changed.sources {
		require.Equal(t, s.Resource, changed.final[i].Resource)
		require.False(t, s.Final)
		require.True(t, changed.final[i].Final)
	}
}

func TestAbsent(t *testing.T) {
	var err error
	lists := []*metav1.APIResourceList{served("v1", "pods")}
	cluster, bad := New(nowhere(func(context.Context) ([]*metav1.APIResourceList, error) { return lists, err }), nil)
	require.NoError(t, bad)
	c := cluster.deleter.catalog
	absent := func(r namespace.ResourceType) bool {
		t.Helper()
		gone, err := c.isAbsent(t.Context(), r)
		require.NoError(t, err)
		return gone
	}
	require.False(t, absent(pods))
	require.True(t, absent(widgets))
	err = groupsFailed("example.com/v1")
	require.False(t, absent(widgets), "its group could not be discovered")
	require.True(t, absent(secrets))
	err, lists = nil, append(lists, served("a/b/c", "things"))
	require.False(t, absent(secrets), "it may be what could not be read")
	err = errDown
	_, failed := c.isAbsent(t.Context(), secrets)
	require.ErrorIs(t, failed, errDown)
}

// A discovery that does not answer is abandoned, and nothing of it is used.
func TestDiscoveryThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := New(nowhere(func(ctx context.Context) ([]*metav1.APIResourceList, error) {
			<-ctx.Done()
			return []*metav1.APIResourceList{served("v1", "pods")}, nil
		}), &Options{Deleter: deleter.Options{CallTimeout: time.Second}})
		require.NoError(t, err)
		began := time.Now()
		report, err := cluster.Deleter().Delete(t.Context(), target(), deleter.Report{})
		require.ErrorContains(t, err, "discovery did not complete within 1s")
		require.Len(t, report.Discovery, 1)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestBadOptions(t *testing.T) {
	good := nowhere(func(context.Context) ([]*metav1.APIResourceList, error) { return nil, errors.New("unused") })
	widget := []namespace.ResourceType{widgets}
	for _, tt := range []struct {
		name    string
		clients Clients
		opts    Options
		text    string
	}{
		{"no namespaces", Clients{Metadata: good.Metadata, Resources: good.Resources}, Options{}, "Clients.Namespaces is nil"},
		{"no metadata", Clients{Namespaces: good.Namespaces, Resources: good.Resources}, Options{}, "Clients.Metadata is nil"},
		{"no discovery", Clients{Namespaces: good.Namespaces, Metadata: good.Metadata}, Options{}, "Clients.Resources is nil"},
		{"a type without a name", good, Options{Only: []namespace.ResourceType{pods, {Group: "a"}}}, "Options.Only[1]: "},
		{"a type with its group in the name", good, Options{Except: []namespace.ResourceType{{Name: "widgets.example.com"}}}, "Options.Except[0]: "},
		{"a group that is a path", good, Options{ExceptGroups: []string{"a/v1"}}, "Options.ExceptGroups[0]: "},
		{"nothing is left", good, Options{Only: widget, Except: widget}, "Options.Only: "},
		{"nothing is left of its groups", good, Options{Only: widget, ExceptGroups: []string{widgets.Group}}, "Options.Only: "},
		{"a negative bound", good, Options{Deleter: deleter.Options{Parallelism: -1}}, "option Parallelism: "},
		{"a negative time", good, Options{Deleter: deleter.Options{CallTimeout: -1}}, "option CallTimeout: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster, err := New(tt.clients, &tt.opts)
			require.Nil(t, cluster)
			require.ErrorIs(t, err, deleter.ErrInvalid)
			require.ErrorContains(t, err, tt.text)
		})
	}
}

func TestBadTargets(t *testing.T) {
	asked := false
	cluster, err := New(nowhere(func(context.Context) ([]*metav1.APIResourceList, error) { asked = true; return nil, nil }), nil)
	require.NoError(t, err)
	d := cluster.Deleter()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		target deleter.Target
		want   error
	}{
		{"a context that has ended", ended, target(), context.Canceled},
		{"no target", t.Context(), deleter.Target{}, deleter.ErrInvalid},
		{"an active namespace", t.Context(), deleter.Target{Namespace: "n", UID: "u"}, deleter.ErrInvalid},
		{"a path", t.Context(), deleter.Target{Namespace: "../n", UID: "u", DeletedAt: time.Unix(1, 0)}, deleter.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report, err := d.Delete(tt.ctx, tt.target, deleter.Report{})
			require.ErrorIs(t, err, tt.want)
			require.False(t, report.Empty())
			if tt.target.ValidateView() != nil || tt.target.Validate() == nil { // an active namespace may be inspected
				report, err = d.Inspect(tt.ctx, tt.target)
				require.ErrorIs(t, err, tt.want)
				require.False(t, report.Empty())
				inventory, err := d.Inventory(tt.ctx, tt.target)
				require.ErrorIs(t, err, tt.want)
				require.False(t, inventory.Report.Empty())
			}
			require.ErrorIs(t, d.Wait(tt.ctx, tt.target, deleter.Report{}), tt.want)
		})
	}
	require.False(t, asked)
	require.Empty(t, d.incarnations.known)
}

func TestBadConfigs(t *testing.T) {
	for name, config := range map[string]*rest.Config{
		"none":                   nil,
		"an invalid address":     {Host: "http://a b"},
		"a missing certificate":  {Host: "https://localhost", TLSClientConfig: rest.TLSClientConfig{CAFile: "/nowhere/ca.crt"}},
		"an invalid certificate": {Host: "https://localhost", TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x"), KeyData: []byte("y")}},
		"two identities":         {Host: "https://localhost", Username: "a", BearerToken: "b", ExecProvider: &clientcmdapi.ExecConfig{}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := ForConfig(config, nil)
			require.Nil(t, cluster)
			require.ErrorIs(t, err, deleter.ErrInvalid)
			require.ErrorContains(t, err, "the config")
		})
	}
}

package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

func TestPatch(t *testing.T) {
	for _, tt := range []struct {
		name, target, contentType, body string
		code                            int
		contains                        string
	}{
		{"merge", maps + "/a", mergePatch, `{"data":{"k":"w"}}`, 200, `"k":"w"`},
		{"JSON", maps + "/a", jsonPatch, `[{"op":"test","path":"/data/k","value":"v"},{"op":"replace","path":"/data/k","value":"w"}]`, 200, `"k":"w"`},
		{"JSON, test fails", maps + "/a", jsonPatch, `[{"op":"test","path":"/data/k","value":"x"}]`, 422, `"reason":"Invalid"`},
		{"strategic", maps + "/a", strategicPatch, `{"data":{"k":"w"}}`, 200, `"k":"w"`},
		{"merge of a custom kind", widgets + "/w", mergePatch, `{"spec":{"n":2}}`, 200, `"n":2`},
		{"strategic of a custom kind", widgets + "/w", strategicPatch, `{"spec":{"n":2}}`, 415, `"reason":"UnsupportedMediaType"`},
		{"status", widgets + "/w/status", mergePatch, `{"spec":{"n":2},"status":{"ok":true}}`, 200, `"spec":{"n":1},"status":{"ok":true}`},
		{"status of a namespace", x + "/status", strategicPatch, `{"status":{"conditions":[{"type":"T","status":"True"}]}}`, 200, `"type":"T"`},
		{"namespace", x, mergePatch, `{"metadata":{"labels":{"a":"b"}},"spec":{"finalizers":[]}}`, 200, `"finalizers":["kubernetes"]`},
		{"the name", maps + "/a", mergePatch, `{"metadata":{"name":"b"}}`, 400, `"reason":"BadRequest"`},
		{"the namespace", maps + "/a", mergePatch, `{"metadata":{"namespace":"y"}}`, 400, `"reason":"BadRequest"`},
		{"another uid", maps + "/a", mergePatch, `{"metadata":{"uid":"other"}}`, 409, `"reason":"Conflict"`},
		{"another version", maps + "/a", mergePatch, `{"metadata":{"resourceVersion":"1"},"data":{"k":"w"}}`, 409, "the object has been modified"},
		{"no object", maps + "/none", mergePatch, `{}`, 404, `configmaps \"none\" not found`},
		{"finalize", x + "/finalize", mergePatch, `{}`, 405, `"reason":"MethodNotAllowed"`},
		{"apply creates", maps + "/new?fieldManager=m", applyPatch, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata: {k: v}\n", 201, `"manager":"m"`},
		{"apply changes", maps + "/a?fieldManager=m", applyPatch, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {other: v}\n", 200, `"other":"v"`},
		{"apply conflicts", maps + "/a?fieldManager=m", applyPatch, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: w}\n", 409, `"reason":"FieldManagerConflict"`},
		{"apply with force", maps + "/a?fieldManager=m&force=true", applyPatch, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: w}\n", 200, `"k":"w"`},
		{"apply without a manager", maps + "/a", applyPatch, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", 422, "is required for apply patch"},
		{"force without apply", maps + "/a?force=true", mergePatch, `{}`, 422, "may not be specified for non-apply patch"},
		{"apply in a missing namespace", "/api/v1/namespaces/none/configmaps/a?fieldManager=m", applyPatch, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", 404, `namespaces \"none\" not found`},
		{"apply of a status that is not there", widgets + "/none/status?fieldManager=m", applyPatch, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: none}\n", 404, "not found"},
		{"dry run", maps + "/a?dryRun=All", mergePatch, `{"data":{"k":"dry"}}`, 200, `"k":"dry"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnv(t, nil)
			e.namespace("x")
			e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
			e.must(http.StatusCreated, "POST", widgets, `{"metadata":{"name":"w"},"spec":{"n":1}}`)
			before := e.contents()
			a := e.do("PATCH", tt.target, tt.body, "Content-Type", tt.contentType)
			require.Equal(t, tt.code, a.Code, a.Body)
			require.Contains(t, a.Body, tt.contains)
			switch {
			case a.Code >= 300 || tt.name == "dry run":
				require.Equal(t, before, e.contents())
			default:
				require.NotEqual(t, before, e.contents())
			}
		})
	}
}

// TestPatchesOfManyClients sends concurrent patches to one object without a resourceVersion.
// The final object must contain every acknowledged key, and no other key.
func TestPatchesOfManyClients(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	e.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"}}`)
	const clients, each = 4, 20
	var all sync.WaitGroup
	acknowledged := make([][]string, clients)
	for c := range clients {
		all.Go(func() {
			for i := range each {
				key := fmt.Sprintf("k-%d-%d", c, i)
				a := e.do("PATCH", maps+"/a", `{"data":{"`+key+`":"v"}}`, "Content-Type", mergePatch)
				switch a.Code {
				case http.StatusOK:
					acknowledged[c] = append(acknowledged[c], key)
				case http.StatusConflict: // other clients won all five attempts
				default:
					t.Errorf("%d %s", a.Code, a.Body)
				}
			}
		})
	}
	all.Wait()
	data, ok := e.must(http.StatusOK, "GET", maps+"/a", "").get("data").(map[string]any)
	require.True(t, ok)
	count := 0
	for _, keys := range acknowledged {
		count += len(keys)
		for _, key := range keys {
			require.Contains(t, data, key)
		}
	}
	require.Len(t, data, count)
}

// TestManagedFieldsOfUpdates checks that a PUT takes ownership of the fields that it changes.
func TestManagedFieldsOfUpdates(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	apply := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
	e.must(http.StatusCreated, "PATCH", maps+"/a?fieldManager=m", apply, "Content-Type", applyPatch)
	a := e.must(http.StatusOK, "PUT", maps+"/a", `{"metadata":{"name":"a"},"data":{"k":"w"}}`, "User-Agent", "editor/1.0 (linux)")
	require.Contains(t, a.Body, `"manager":"editor"`)
	a = e.do("PATCH", maps+"/a?fieldManager=m", apply, "Content-Type", applyPatch)
	require.Equal(t, http.StatusConflict, a.Code)
	require.Contains(t, a.text("message"), `conflict with "editor"`)
}

// TestPatchLosesNoUpdate checks that a patch without a resourceVersion, or with version 0, keeps
// a concurrent update of another client.
func TestPatchLosesNoUpdate(t *testing.T) {
	for _, metadata := range []string{`{}`, `{"resourceVersion":"0"}`} {
		t.Run(metadata, func(t *testing.T) {
			s, err := memory.New(nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			others := newEnvOver(t, s, nil)
			others.namespace("x")
			others.must(http.StatusCreated, "POST", maps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
			e := newEnvOver(t, s, nil, &meanwhile{do: func() {
				others.must(http.StatusOK, "PUT", maps+"/a", `{"metadata":{"name":"a"},"data":{"k":"theirs"}}`)
			}})
			patched := e.do("PATCH", maps+"/a", `{"metadata":`+metadata+`,"data":{"b":"2"}}`, "Content-Type", mergePatch)
			require.Equal(t, http.StatusOK, patched.Code)
			require.Equal(t, map[string]any{"k": "theirs", "b": "2"}, e.do("GET", maps+"/a", "").get("data"))
		})
	}
}

// meanwhile is an admission plugin that calls do once, before the first commit.
type meanwhile struct {
	once sync.Once
	do   func()
}

func (m *meanwhile) Admit(context.Context, *registry.Write) error {
	m.once.Do(m.do)
	return nil
}

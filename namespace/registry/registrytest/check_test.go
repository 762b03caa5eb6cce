package registrytest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace/registry/registrytest"
	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

const (
	active   = `{"metadata":{"name":"x","uid":"u"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}`
	dying    = `{"metadata":{"name":"x","uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}`
	later    = `{"metadata":{"name":"x","uid":"u","deletionTimestamp":"2021-01-01T00:00:00Z"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}`
	released = `{"metadata":{"name":"x","uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z"},"status":{"phase":"Terminating"}}`
	lying    = `{"metadata":{"name":"x","uid":"u"},"status":{"phase":"Terminating"}}`
	another  = `{"metadata":{"name":"x","uid":"v"},"status":{"phase":"Active"}}`
	widget   = `{"metadata":{"name":"a","namespace":"x","uid":"w"},"spec":1,"status":[]}`
	stuck    = `{"metadata":{"name":"a","namespace":"x","uid":"w","deletionTimestamp":"2020-01-01T00:00:00Z"}}`
	versions = `{"metadata":{"name":"a","namespace":"x","uid":"w","resourceVersion":"1"}} ` // without a header

	onHold     = `{"metadata":{"name":"x","uid":"u","annotations":{"nslifecycle.io/delete-after":"{\"until\":\"2030-01-02T03:04:05Z\"}"}},"status":{"phase":"Active"}}`
	unreadable = `{"metadata":{"name":"x","uid":"u","annotations":{"nslifecycle.io/delete-after":"soon"}},"status":{"phase":"Active"}}`
	heldDying  = `{"metadata":{"name":"x","uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z","annotations":{"nslifecycle.io/delete-after":"{\"until\":\"2030-01-02T03:04:05Z\"}"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}`
	until      = "2030-01-02T03:04:05Z u"

	hold    = "/p/.hold/x"
	object  = "/p/namespaces/x"
	gate    = "/p/.gate/x"
	index   = "/p/.terminating/x"
	content = "/p/widgets/x/a"
	record  = "/p/.audit/x/1"
	typed   = "/p/.types/widgets"
)

func put(pairs ...string) store.Txn {
	var txn store.Txn
	for i := 0; i < len(pairs); i += 2 {
		value := []byte(pairs[i+1])
		if stored, err := registrytest.Value(value); err == nil {
			value = stored
		}
		txn.Do = append(txn.Do, store.Put(pairs[i], value))
	}
	return txn
}

func remove(keys ...string) store.Txn {
	var txn store.Txn
	for _, key := range keys {
		txn.Do = append(txn.Do, store.Delete(key))
	}
	return txn
}

func and(a, b store.Txn) store.Txn { return store.Txn{Do: slices.Concat(a.Do, b.Do)} }

func open(t *testing.T, history ...store.Txn) (store.Store, store.Position) {
	s, err := memory.New(nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	_, err = s.Commit(t.Context(), put("/elsewhere", ""))
	require.NoError(t, err)
	page, err := s.List(t.Context(), store.Query{})
	require.NoError(t, err)
	for _, txn := range history {
		_, err := s.Commit(t.Context(), txn)
		require.NoError(t, err)
	}
	return s, page.Position
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state store.Txn
		want  string // part of the fault; empty: none
	}{
		{"nothing", store.Txn{}, ""},
		{"active", put(typed, "active", object, active, gate, "u", content, widget, "/p/nodes/n", `{"metadata":{"name":"n","uid":"n"}}`), ""},
		{"terminating", put(typed, "retiring", object, dying, index, "u", content, widget), ""},
		{"a type not on record", put(object, active, gate, "u", content, widget), `"/p/widgets/x/a" is stored, but its type is not on record (R7)`},
		{"an invalid type record", put(typed, "?"), "should be active or retiring"},
		{"another prefix", put("/q/widgets/x/a", widget), ""},
		{"no gate", put(object, active), "the gate is missing (R6)"},
		{"a gate while terminating", put(object, dying, index, "u", gate, "u"), "there must be no gate"},
		{"the gate of another uid", put(object, active, gate, "v"), `the gate is of uid "v"`},
		{"no termination entry", put(object, dying), "the termination entry is missing"},
		{"a termination entry too many", put(object, active, gate, "u", index, "u"), "there must be no termination entry"},
		{"another's termination entry", put(object, dying, index, "v"), `the termination entry is of uid "v"`},
		{"a gate alone", put(gate, "u"), "it does not exist, but its gate does (R6)"},
		{"a termination entry alone", put(index, "u"), "it does not exist, but its termination entry does"},
		{"on hold", put(object, onHold, gate, "u", hold, until), ""},
		{"a hold that cannot be read", put(object, unreadable, gate, "u"), ""},
		{"on hold once, terminating", put(object, heldDying, index, "u"), ""},
		{"no entry in the index of holds", put(object, onHold, gate, "u"), "its entry in the index of holds is missing"},
		{"an entry in the index of holds too many", put(object, active, gate, "u", hold, until), "there must be no entry in the index of holds"},
		{"an entry in the index of holds while terminating", put(object, heldDying, index, "u", hold, until), "there must be no entry in the index of holds"},
		{"another's entry in the index of holds", put(object, onHold, gate, "u", hold, "2030-01-02T03:04:05Z v"), `is "2030-01-02T03:04:05Z v", should be "2030-01-02T03:04:05Z u"`},
		{"an entry in the index of holds alone", put(hold, until), "it does not exist, but its entry in the index of holds does"},
		{"keys of other packages", put("/p/.audit/x/1", "?", "/p/.audit/x/1/2", "?", "/p/.parties/example.com/a/b", "?", "/p/.replicas/a/b", "?"), ""},
		{"an orphan", put(content, widget), `it does not exist, but it has content at "/p/widgets/x/a"`},
		{"a wrong phase", put(object, lying, gate, "u"), `the phase is "Terminating", should be "Active" (R2)`},
		{"not removed", put(object, released, index, "u"), "it is not removed (R1)"},
		{"stuck content", put(object, active, gate, "u", content, stuck), "has no finalizers"},
		{"stuck content of the cluster", put("/p/nodes/a", `{"metadata":{"name":"a","uid":"w","deletionTimestamp":"2020-01-01T00:00:00Z"}}`), "has no finalizers"},
		{"no header", store.Txn{Do: append(put(object, active, gate, "u").Do, store.Put(content, []byte(versions)))}, "its header does not match"},
		{"another name", put("/p/namespaces/y", active, "/p/.gate/y", "u"), `its name is "x"`},
		{"another namespace", put(object, active, gate, "u", "/p/widgets/x/a", `{"metadata":{"name":"a","uid":"w"}}`), `its namespace is ""`},
		{"no uid", put("/p/nodes/n", `{"metadata":{"name":"n"}}`), "it has no uid"},
		{"not JSON", put("/p/nodes/n", `{`), "it cannot be read"},
		{"a key outside of the layout", put("/p/a/b/c/d", `{}`), `the key "/p/a/b/c/d" is not in the layout`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := open(t, tc.state)
			err := registrytest.Check(t.Context(), s, "p")
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAudit(t *testing.T) {
	create := put(typed, "active", object, active, gate, "u")
	terminate := and(put(object, dying, index, "u"), remove(gate))
	gone := remove(object, index)
	for _, tc := range []struct {
		name    string
		history []store.Txn
		want    string
	}{
		{"a life, twice", []store.Txn{create, put(content, widget), terminate, remove(content), gone, create, put(content, widget)}, ""},
		{"content while terminating", []store.Txn{create, terminate, put(content, widget), remove(content), gone}, "was created in a namespace that is not Active (R6)"},
		{"content with the gate", []store.Txn{and(create, put(content, widget)), terminate, remove(content), gone}, "was created in a namespace that is not Active (R6)"},
		{"content nowhere", []store.Txn{put(content, widget), remove(content)}, "was created in a namespace that is not Active (R6)"},
		{"a moving timestamp", []store.Txn{create, terminate, put(object, later), gone}, "the deletion timestamp at \"/p/namespaces/x\" changed from"},
		{"back to life", []store.Txn{create, terminate, and(create, remove(index)), remove(object, gate)}, "the deletion timestamp at \"/p/namespaces/x\" changed from"},
		{"a new incarnation at once", []store.Txn{create, put(object, another, gate, "v"), remove(object, gate)}, "became another incarnation"},
		{"a gate that closes late", []store.Txn{create, put(object, dying, index, "u"), remove(gate), gone}, "there must be no gate"},
		{"on hold, then deleted", []store.Txn{put(object, onHold, gate, "u", hold, until, record, "{}"), and(put(object, heldDying, index, "u"), remove(gate, hold)), gone}, ""},
		{"a hold that is restored late", []store.Txn{put(object, onHold, gate, "u", hold, until, record, "{}"), put(object, active, record+"1", "{}"), remove(hold), remove(object, gate)}, "there must be no entry in the index of holds"},
		{"declared off the record", []store.Txn{put(object, onHold, gate, "u", hold, until), remove(object, gate, hold)}, "without an audit record in the same commit"},
		{"taken back off the record", []store.Txn{put(object, onHold, gate, "u", hold, until, record, "{}"), and(put(object, active), remove(hold)), remove(object, gate)}, "without an audit record in the same commit"},
		{"another's record", []store.Txn{put(object, onHold, gate, "u", hold, until, "/p/.audit/y/1", "{}"), remove(object, gate, hold)}, "without an audit record in the same commit"},
		{"a record that is forgotten", []store.Txn{put(record, "{}"), remove(record)}, ""},
		{"a record that goes with something else", []store.Txn{put(record, "{}", object, onHold, gate, "u", hold, until), remove(record, object, gate, hold)}, "by a commit that does more"},
		{"an inventory that is changed", []store.Txn{put("/p/.inventory/x/1/0", "{}"), put("/p/.inventory/x/1/0", "[]")}, "audit records must not change"},
		{"a type that is retired", []store.Txn{create, and(remove(typed), put("/p/.audit/.types/1", "{}")), remove(object, gate)}, ""},
		{"a type retired off the record", []store.Txn{create, and(remove(typed), put(record, "{}")), remove(object, gate)}, "without an audit record in the same commit"},
		{"a type retired too early", []store.Txn{create, put(content, widget), and(remove(typed), put("/p/.audit/.types/1", "{}")), remove(object, gate, content)}, `"/p/widgets/x/a" is stored, but its type is not on record (R7)`},
		{"an orphan for a moment", []store.Txn{create, put(content, widget), terminate, gone, remove(content)}, "it does not exist, but it has content"},
		{"from one incarnation to another", []store.Txn{create, put(content, widget), terminate, and(gone, put(content, widget)), put(object, another, gate, "v")}, "it does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, start := open(t, tc.history...)
			page, err := s.List(t.Context(), store.Query{})
			require.NoError(t, err)
			err = registrytest.Audit(t.Context(), s, "p", start, page.Position.Revision)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "revision ")
		})
	}
}

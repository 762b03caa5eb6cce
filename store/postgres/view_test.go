package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store"
)

// The view shows the namespaces of every registry in the store. No other entry makes it fail.
func TestViewOfNamespaces(t *testing.T) {
	t.Parallel()
	s, schema := openNew(t, nil)
	for _, prefix := range []string{"registry", "a/b"} {
		r, err := registry.New(s, &registry.Options{Prefix: prefix})
		require.NoError(t, err)
		for _, name := range []string{"active", "ending"} {
			_, err := r.Create(t.Context(), namespace.Namespace{Meta: namespace.Meta{Name: name, Labels: map[string]string{"team": "x"}}})
			require.NoError(t, err)
		}
		_, err = r.Delete(t.Context(), "ending", namespace.Preconditions{})
		require.NoError(t, err)
		require.NoError(t, r.Close())
	}
	for _, odd := range []string{
		"namespaces", "/namespaces/", "/registry/namespaces/no-gate", "/\xff/namespaces/\xff", "\x00/namespaces/x", "/x/namespaces/zero\x00",
		"/registry/configmaps/namespaces/x", "/y/namespaces/not-json", "/z/namespaces/array",
	} {
		commit(t, s, store.Put(odd, []byte("{\xff\x00")))
	}
	for key, value := range map[string]string{
		"/y/namespaces/bad": "not json", "/y/.gate/bad": "", "/z/namespaces/array": "[1]", "/z/.gate/array": "",
		"/t/namespaces/times": `{"metadata":{"creationTimestamp":"no time","deletionTimestamp":7},"status":"odd"}`, "/t/.gate/times": "u",
		"/n/namespaces/null": `{"x":"\u0000"}`, "/n/.gate/null": "u",
		"/u/namespaces/never": `{"metadata":{"creationTimestamp":"infinity","deletionTimestamp":"-infinity"}}`, "/u/.gate/never": "u",
	} {
		put(t, s, key, value)
	}
	rows, err := newPool(t, server(t).DSN("postgres")).Query(t.Context(), fmt.Sprintf(
		"SELECT prefix, name, coalesce(phase, '-'), coalesce(finalizers::text, '-'), coalesce(labels ->> 'team', '-'), age >= '0', deleted IS NOT NULL, conditions FROM %s.namespaces ORDER BY 1, 2", schema))
	require.NoError(t, err)
	var got []string
	for rows.Next() {
		var prefix, name, phase, finalizers, labels string
		var aged *bool
		var deleted bool
		var conditions any
		require.NoError(t, rows.Scan(&prefix, &name, &phase, &finalizers, &labels, &aged, &deleted, &conditions))
		got = append(got, fmt.Sprint(prefix, " ", name, " ", phase, " ", finalizers, " ", labels, " ", aged != nil, " ", deleted))
	}
	require.NoError(t, rows.Err())
	want := []string{
		`a/b active Active ["kubernetes"] x true false`,
		`a/b ending Terminating ["kubernetes"] x true true`,
		`registry active Active ["kubernetes"] x true false`,
		`registry ending Terminating ["kubernetes"] x true true`,
		`t times - - - false false`,
		`u never - - - false false`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the view (-want +got):\n%s", diff)
	}
}

// The view works with any plan. Its functions catch errors, which parallel workers may not.
func TestViewInParallel(t *testing.T) {
	t.Parallel()
	s, schema := openNew(t, nil)
	put(t, s, "/registry/namespaces/a", `{"metadata":{"name":"a"}}`)
	put(t, s, "/registry/.gate/a", "u")
	config, err := pgxpool.ParseConfig(server(t).DSN("postgres"))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"parallel_setup_cost": "0", "parallel_tuple_cost": "0", "min_parallel_table_scan_size": "0", "min_parallel_index_scan_size": "0",
		"max_parallel_workers_per_gather": "2",
	} { // as if the store were large
		config.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	var n int
	for _, where := range []string{"true", "name = 'a'", "document ->> 'metadata' <> ''"} {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".namespaces WHERE "+where).Scan(&n), where)
		require.Equal(t, 1, n, where)
	}
}

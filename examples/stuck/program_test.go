package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/examples/internal/programs"
	"github.com/nslifecycle/nslifecycle/namespace/observe/debug"
)

// TestProgram runs the program as users do: every exhibit is shown, in order, and ends
// well, or the program would have failed.
func TestProgram(t *testing.T) {
	t.Parallel()
	all, err := exhibits()
	require.NoError(t, err)
	p := programs.Self(t)
	for _, e := range all {
		p.Until(t, " "+e.Name+" ─")
		p.Until(t, `\$ explain `+e.namespace())
	}
	code, fault := p.Exit()
	require.Zero(t, code, fault)
	require.Empty(t, fault)
	for line := range strings.Lines(p.Said()) {
		require.NotContains(t, line, "\x1b", "nothing of a terminal is asked for")
	}
}

func TestOnlyAndList(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, []string{"--list"}))
	all, err := exhibits()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 12)
	require.Equal(t, len(all), strings.Count(out.String(), "\n"))

	out.Reset()
	require.NoError(t, run(t.Context(), &out, []string{"--only", "protection"}))
	require.Contains(t, out.String(), "── 1/1 protection ─")
	require.NotContains(t, out.String(), "failing-type")
}

// TestMuseum visits the museum in the browser's way, in virtual time: every exhibit gets
// stuck and is explained, gets on by its remedy, and can be had again.
func TestMuseum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		all, err := exhibits()
		require.NoError(t, err)
		m := newMuseum(ctx, all)
		pages, err := debug.New(m, m, &debug.Options{Records: m.records})
		require.NoError(t, err)
		defer func() {
			stop()
			require.NoError(t, pages.Close())
			require.NoError(t, m.close())
		}()
		handler := m.handler(pages)
		time.Sleep(15 * time.Second)

		page := visitPage(t, handler, "GET", "/", http.StatusOK)
		require.Equal(t, len(all), strings.Count(page, "Apply the remedy"), page)
		for _, room := range m.rooms {
			d, err := m.Explain(ctx, room.namespace)
			require.NoError(t, err)
			require.Equal(t, room.Cause, d.Causes[0].Kind, "%s: %s", room.Name, d.Text())
		}
		index := visitPage(t, handler, "GET", "/debug/?format=text", http.StatusOK)
		for _, name := range []string{"shop", "billing", "maps", "feed", "customers"} {
			require.Contains(t, index, "\n"+name+" ")
		}
		require.Contains(t, visitPage(t, handler, "GET", "/debug/?namespace=orders&format=text", http.StatusOK), "backup.example.com/snapshot")

		visitPage(t, handler, "POST", "/again/failing-type", http.StatusConflict) // it is not over
		for _, room := range m.rooms {
			visitPage(t, handler, "POST", "/remedy/"+room.Name, http.StatusSeeOther)
			visitPage(t, handler, "POST", "/remedy/"+room.Name, http.StatusConflict)
		}
		time.Sleep(2 * time.Minute)
		page = visitPage(t, handler, "GET", "/", http.StatusOK)
		require.NotContains(t, page, "It went wrong")
		require.Equal(t, len(all), strings.Count(page, "Once more"), page)
		_, terminating, err := m.Count(ctx)
		require.NoError(t, err)
		require.Zero(t, terminating)

		visitPage(t, handler, "POST", "/again/failing-type", http.StatusSeeOther)
		time.Sleep(15 * time.Second)
		require.Equal(t, 1, strings.Count(visitPage(t, handler, "GET", "/", http.StatusOK), "Apply the remedy"))
	})
}

func visitPage(t *testing.T, handler http.Handler, method, path string, code int) string {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil))
	require.Equal(t, code, w.Code, "%s %s: %s", method, path, w.Body)
	return w.Body.String()
}

// TestListen opens the museum as a program, looks in, and closes it.
func TestListen(t *testing.T) {
	t.Parallel()
	p := programs.Self(t, "--listen", "127.0.0.1:0")
	_, address, _ := strings.Cut(p.Until(t, "the museum is open"), "open: ")
	answer, err := http.Get(address)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")

	// No other site may press the buttons.
	request, err := http.NewRequestWithContext(t.Context(), "POST", address+"remedy/large", nil)
	require.NoError(t, err)
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	answer, err = http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusForbidden, answer.StatusCode)

	p.Signal(t, syscall.SIGTERM)
	code, fault := p.Exit()
	require.Zero(t, code, fault)
}

func TestConduct(t *testing.T) {
	t.Parallel()
	programs.Conduct{Args: []string{"--listen", "127.0.0.1:0"}, Ready: "the museum is open", Listen: []string{"--listen"}}.Check(t)
}

// What is said of an exhibit is true in the browser too: most are not stuck, some not even
// Terminating, and it goes slower there.
func TestExhibitsClaimNothingUntrue(t *testing.T) {
	all, err := exhibits()
	require.NoError(t, err)
	for _, e := range all {
		for _, step := range e.Steps {
			require.NotRegexp(t, `[0-9] in a second`, strings.Join(step.Words, " "), e.Name)
		}
	}
	for _, s := range []state{preparing, waiting, curing, over} {
		require.NotContains(t, string(s), "stuck")
	}
}

func TestBadInput(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--colour"}, "colour"},
		{"argument", []string{"now"}, `unexpected argument "now"`},
		{"no such exhibit", []string{"--only", "mona-lisa"}, `no exhibit "mona-lisa"`},
		{"open to other machines", []string{"--listen", ":0"}, "--insecure-listen"},
		{"no such address", []string{"--listen", "127.0.0.1:-1"}, "--listen: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, run(t.Context(), new(bytes.Buffer), tt.args), tt.want)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, new(bytes.Buffer), nil), context.Canceled)
}

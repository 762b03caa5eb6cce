package debug_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	envRequire     = "NSLIFECYCLE_REQUIRE_SERVERS" // a missing browser fails tests
	envScreenshots = "NSLIFECYCLE_SCREENSHOTS"     // a folder for screenshots
)

// browser is a headless Chromium, spoken to over a pipe in the DevTools protocol.
type browser struct {
	write *os.File

	mu      sync.Mutex
	id      int
	answers map[int]chan answer
	tabs    map[string]*tab
	ended   bool
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type message struct {
	ID      int             `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Session string          `json:"sessionId"`
	answer
}

// newBrowser starts Chromium, which ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		const word = "no Chromium is installed (Debian: apt-get install chromium)"
		if os.Getenv(envRequire) != "" {
			t.Fatal(word)
		}
		t.Skip(word)
	}
	fromHere, write, err := os.Pipe()
	require.NoError(t, err)
	read, fromThere, err := os.Pipe()
	require.NoError(t, err)
	b := &browser{write: write, answers: map[int]chan answer{}, tabs: map[string]*tab{}}

	profile, err := os.MkdirTemp("", "chromium")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{fromHere, fromThere} // 3 and 4
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "HOME="+profile)
	require.NoError(t, cmd.Start())
	require.NoError(t, fromHere.Close())
	require.NoError(t, fromThere.Close())
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		b.hear(read)
	}()
	t.Cleanup(func() {
		_ = b.send(0, "", "Browser.close", nil) // it may be gone
		ended := make(chan struct{})
		stop := time.AfterFunc(10*time.Second, cancel)
		go func() { defer close(ended); _ = cmd.Wait() }()
		<-ended
		stop.Stop()
		cancel()
		<-heard
		_, _ = write.Close(), read.Close()
		require.NoError(t, removeSoon(profile))
	})
	return b
}

// removeSoon removes a folder that processes of the browser which outlive it by a moment
// may still write to.
func removeSoon(dir string) (err error) {
	for range 100 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// hear reads messages until the browser ends.
func (b *browser) hear(read *os.File) {
	in := bufio.NewReaderSize(read, 1<<20)
	for {
		line, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if m.ID != 0 {
			if c := b.answers[m.ID]; c != nil {
				c <- m.answer
				delete(b.answers, m.ID)
			}
		} else if t := b.tabs[m.Session]; t != nil {
			t.heard(m)
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, c := range b.answers {
		close(c)
	}
}

func (b *browser) send(id int, session, method string, params any) error {
	m := map[string]any{"id": id, "method": method}
	if session != "" {
		m["sessionId"] = session
	}
	if params != nil {
		m["params"] = params
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = b.write.Write(append(text, 0))
	return err
}

// call sends a command and decodes its answer into result.
func (b *browser) call(t *testing.T, session, method string, params, result any) {
	t.Helper()
	b.mu.Lock()
	require.False(t, b.ended, "the browser has ended")
	b.id++
	id, c := b.id, make(chan answer, 1)
	b.answers[id] = c
	b.mu.Unlock()
	require.NoError(t, b.send(id, session, method, params))
	a, ok := <-c
	require.True(t, ok, "the browser ended")
	if a.Error != nil {
		require.Fail(t, method+": "+a.Error.Message)
	}
	if result != nil {
		require.NoError(t, json.Unmarshal(a.Result, result))
	}
}

// look is how a tab looks at pages.
type look struct {
	width, height int
	phone, dark   bool
}

var (
	desktop = look{width: 1280, height: 900}
	phone   = look{width: 360, height: 760, phone: true}
)

// tab is one tab of a browser.
type tab struct {
	*browser
	t       *testing.T
	session string
	loaded  chan string // which documents have
	errors  []string    // errors of the console and the log; the browser must be locked
}

// open opens a tab.
func (b *browser) open(t *testing.T, l look) *tab {
	t.Helper()
	var target struct{ TargetID, SessionID string }
	b.call(t, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call(t, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	page := &tab{browser: b, t: t, session: target.SessionID, loaded: make(chan string, 1024)}
	b.mu.Lock()
	b.tabs[page.session] = page
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Audits"} {
		page.call(domain+".enable", nil, nil)
	}
	page.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil) // else other tabs hide it
	page.call("Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}, nil)
	page.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": l.width, "height": l.height, "deviceScaleFactor": 1, "mobile": l.phone,
	}, nil)
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	page.call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
	return page
}

func (t *tab) call(method string, params, result any) {
	t.t.Helper()
	t.browser.call(t.t, t.session, method, params, result)
}

// heard takes in an event; the browser is locked.
func (t *tab) heard(m message) {
	switch m.Method {
	case "Page.lifecycleEvent":
		var event struct{ LoaderID, Name string }
		if json.Unmarshal(m.Params, &event) == nil && event.Name == "load" {
			t.loaded <- event.LoaderID
		}
	case "Log.entryAdded", "Runtime.exceptionThrown", "Audits.issueAdded":
		t.errors = append(t.errors, m.Method+" "+string(m.Params))
	}
}

// visit opens a page and waits until it has loaded.
func (t *tab) visit(url string) {
	t.t.Helper()
	var document struct{ LoaderID, ErrorText string }
	t.call("Page.navigate", map[string]any{"url": url}, &document)
	require.Empty(t.t, document.ErrorText, url)
	for <-t.loaded != document.LoaderID {
	}
}

// eval returns the value of an expression in the page, or of a promise its result.
func (t *tab) eval(expression string) any {
	t.t.Helper()
	var out struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		ExceptionDetails json.RawMessage `json:"exceptionDetails"`
	}
	t.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	require.Empty(t.t, string(out.ExceptionDetails), expression)
	return out.Result.Value
}

// until waits until an expression in the page is true: the page itself tells, whenever
// it has changed.
func (t *tab) until(expression string) {
	t.t.Helper()
	t.eval(fmt.Sprintf(`new Promise((done) => {
		const look = () => { if (%s) { observer.disconnect(); done(true); } };
		const observer = new MutationObserver(look);
		observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
		look();
	})`, expression))
}

// complaints returns the errors of the page, including violations of its policy.
func (t *tab) complaints() string {
	t.t.Helper()
	t.eval("1") // earlier events have been received by then
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.errors, "\n")
}

// clean holds that nothing went wrong in the page.
func (t *tab) clean() {
	t.t.Helper()
	require.Empty(t.t, t.complaints())
}

// shoot saves a screenshot of the whole page if a folder is given.
func (t *tab) shoot(name string) {
	t.t.Helper()
	dir := os.Getenv(envScreenshots)
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	t.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(t.t, err)
	require.NoError(t.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

package debug_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/stretchr/testify/require"
)

// shown is a server of the scene, and where its pages are.
func shown(t *testing.T, interval time.Duration) (whole, *httptest.Server, string) {
	t.Helper()
	place, options := scene(time.Now())
	options.Interval = interval
	h := newHandler(t, place, place, options)
	mux := http.NewServeMux()
	mux.Handle("/debug/namespaces/", h)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", h))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() { require.NoError(t, h.Close()) }) // before the server, which waits for open pages
	return place, server, server.URL + "/debug/namespaces/"
}

const isLive = `document.getElementById("live").className === "on"`

func TestBrowser(t *testing.T) {
	b := newBrowser(t)
	t.Run("looks", func(t *testing.T) { testLooks(t, b) })
	t.Run("hostile names", func(t *testing.T) { testHostileInBrowser(t, b) })
	t.Run("live", func(t *testing.T) { testLiveInBrowser(t, b) })
	t.Run("lost connection", func(t *testing.T) { testLostConnection(t, b) })
	t.Run("hidden", func(t *testing.T) { testHidden(t, b) })
	t.Run("without scripts", func(t *testing.T) { testWithoutScripts(t, b) })
	t.Run("other sites", func(t *testing.T) { testOtherSitesInBrowser(t, b) })
	t.Run("policy", func(t *testing.T) { testPolicy(t, b) })
}

// testLooks shows the pages as operators would see them.
func testLooks(t *testing.T, b *browser) {
	place, _, base := shown(t, 50*time.Millisecond)
	late := forgotten(time.Now())
	place.set(late)
	place.mu.Lock()
	place.holds = append(place.holds, namespace.Event{Type: namespace.EventPresent, Name: "a-forgotten-hold", UID: "9", Until: late.Next.At})
	place.mu.Unlock()
	looks := map[string]look{
		"desktop": desktop, "phone": phone,
		"dark": {width: 1280, height: 900, dark: true}, "phone-dark": {width: 360, height: 760, phone: true, dark: true},
	}
	pages := []struct{ name, query string }{
		{"index", ""}, {"analytics", "?namespace=analytics"}, {"hostile", "?namespace=" + url.QueryEscape(hostile)}, {"forgotten", "?namespace=forgotten"}, {"unknown", "?namespace=nobody"},
	}
	for name, l := range looks {
		t.Run(name, func(t *testing.T) {
			tab := b.open(t, l)
			fits := func(page string) {
				t.Helper()
				require.LessOrEqual(t, tab.eval("document.documentElement.scrollWidth"), float64(l.width), "%s must not scroll sideways", page)
			}
			for _, page := range pages {
				if page.name == "unknown" {
					tab.clean() // the browser complains of any page that is not found
				}
				tab.visit(base + page.query)
				tab.until(isLive)
				fits(page.name)
				tab.shoot(page.name + "-" + name)
				if page.name == "analytics" {
					tab.eval("document.getElementById('passes').open = true")
					fits(page.name)
					tab.shoot(page.name + "-passes-" + name)
				}
			}
			tab.visit("about:blank") // ends the updates
		})
	}
}

func testHostileInBrowser(t *testing.T, b *browser) {
	_, _, base := shown(t, 50*time.Millisecond)
	tab := b.open(t, phone)
	for _, page := range []string{base, strings.Replace(base, "/debug/namespaces/", "/stripped/", 1)} {
		tab.visit(page)
		tab.until(isLive)
		require.Equal(t, float64(0), tab.eval("document.querySelectorAll('main script, main img').length"))
		require.Equal(t, "auto", tab.eval("getComputedStyle(document.querySelector('bdi')).direction === 'ltr' ? 'auto' : 'turned'"))
		link := "[...document.querySelectorAll('main a')].find((a) => a.textContent.includes('<script>')).href"
		tab.visit(tab.eval(link).(string)) // as a click would
		tab.until(isLive)
		require.Equal(t, "Terminating", tab.eval("document.querySelector('.tiles dd').textContent"), "the link leads elsewhere")
		require.Contains(t, tab.eval("document.querySelector('h1').textContent"), `a"b'c<script>alert(1)</script>&amp;%2e%2e/../?x=1#y\u202egnp.exe`)
		home := tab.eval("document.querySelector('h1 a').href").(string)
		tab.visit(home)
		tab.until(isLive)
		require.Contains(t, tab.eval("document.querySelector('main').textContent"), "team-payments-staging")
	}
	tab.clean()
	tab.visit("about:blank")
}

// Updates appear without a reload, and keep focus and opened details.
func testLiveInBrowser(t *testing.T, b *browser) {
	place, _, base := shown(t, 20*time.Millisecond)
	index, page := b.open(t, desktop), b.open(t, desktop)
	index.visit(base)
	page.visit(base + "?namespace=analytics")
	index.until(isLive)
	page.until(isLive)
	index.eval(`(() => {
		window.kept = [...document.querySelectorAll("main a")].find((a) => a.textContent === "pr-10482");
		kept.focus();
	})()`)
	page.eval(`document.getElementById("passes").open = true`)

	place.set(going("just-now", time.Now().Add(-72*time.Hour)))
	index.until(`document.querySelector("tbody th").textContent === "just-now"`)
	require.Equal(t, true, index.eval(`document.activeElement === kept && kept.textContent === "pr-10482"`), "the focus was lost")
	require.Equal(t, "8", index.eval(`document.querySelectorAll(".tiles dd")[1].textContent`))

	analytics := stuck(time.Now())
	analytics.Causes[0].Summary = "reports.example.com <answers> again"
	analytics.Passes = analytics.Passes[:3]
	place.set(analytics)
	page.until(`document.querySelector(".causes li p").textContent.includes("reports.example.com <answers> again")`)
	require.Equal(t, true, page.eval(`document.getElementById("passes").open`), "the update closed the list of passes")
	require.Equal(t, float64(3), page.eval(`document.querySelectorAll("svg rect").length`))

	place.remove("just-now")
	index.until(`document.querySelector("tbody th").textContent === "team-payments-staging"`)
	require.Equal(t, float64(7), index.eval(`document.querySelectorAll("#terminating + table tbody tr").length`))
	for _, tab := range []*tab{index, page} {
		tab.clean()
		tab.visit("about:blank")
	}
}

func testLostConnection(t *testing.T, b *browser) {
	_, server, base := shown(t, 20*time.Millisecond)
	tab := b.open(t, desktop)
	tab.visit(base)
	tab.until(isLive)
	server.CloseClientConnections()
	tab.until(`document.getElementById("live").className === "off"`)
	tab.until(isLive)
	tab.visit("about:blank")
}

// A hidden page is not updated.
func testHidden(t *testing.T, b *browser) {
	place, _, base := shown(t, 20*time.Millisecond)
	tab := b.open(t, desktop)
	tab.visit(base)
	tab.until(isLive)
	tab.eval(`(() => {
		window.hide = (how) => {
			Object.defineProperty(document, "hidden", {value: how, configurable: true});
			document.dispatchEvent(new Event("visibilitychange"));
		};
		hide(true);
	})()`)
	require.Equal(t, "paused", tab.eval(`document.getElementById("live").textContent`))
	place.set(going("meanwhile", time.Now().Add(-72*time.Hour)))
	tab.eval("hide(false)")
	tab.until(`document.querySelector("tbody th").textContent === "meanwhile"`)
	tab.clean()
	tab.visit("about:blank")
}

func testWithoutScripts(t *testing.T, b *browser) {
	_, _, base := shown(t, 20*time.Millisecond)
	tab := b.open(t, desktop)
	tab.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	tab.visit(base)
	require.Equal(t, "not live", tab.eval(`document.getElementById("live").textContent`))
	require.Equal(t, float64(7), tab.eval(`document.querySelectorAll("#terminating + table tbody tr").length`))
	tab.clean()
}

// Another site in the same browser gets no data and causes no work, but may link to the pages.
func testOtherSitesInBrowser(t *testing.T, b *browser) {
	p := newPlace(going("one", time.Now()))
	h := newHandler(t, p, p, nil)
	answers := make(chan int, 16)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := httptest.NewRecorder()
		h.ServeHTTP(seen, r)
		answers <- seen.Code
		for name, values := range seen.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(seen.Code)
		_, _ = w.Write(seen.Body.Bytes())
	}))
	defer pages.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<link rel=icon href='data:,'><a href='" + pages.URL + "/?namespace=one'>there</a>"))
	}))
	defer other.Close()
	tab := b.open(t, desktop)
	tab.visit(strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	for _, request := range []string{
		`new Promise((done) => { const s = new EventSource("%s/?format=events"); s.onerror = () => { s.close(); done(); }; })`,
		`fetch("%s/?format=json", {mode: "no-cors"}).catch(() => {})`,
		`fetch("%s/?format=text").catch(() => {})`,
		`fetch("%s/", {mode: "no-cors"}).catch(() => {})`,
	} {
		tab.eval("(async () => { await (" + fmt.Sprintf(request, pages.URL) + "); })()")
		require.Equal(t, http.StatusForbidden, <-answers, request)
	}
	gets, explained := p.calls()
	require.Equal(t, [2]int{}, [2]int{gets, explained})
	tab.eval(`document.querySelector("a").click()`)
	require.Equal(t, http.StatusOK, <-answers, "a link")
	tab.visit("about:blank")
}

// The browser reports violations of the policy, so the other tests would fail.
func testPolicy(t *testing.T, b *browser) {
	_, _, base := shown(t, 20*time.Millisecond)
	for _, bad := range []string{
		`<img src="https://example.com/pixel.png">`, `<p style="color: red">x</p>`, `<a onclick="alert(1)">x</a>`,
		`<iframe src="https://example.com/"></iframe>`, `<link rel="stylesheet" href="https://example.com/x.css">`,
	} {
		tab := b.open(t, desktop)
		tab.visit(base)
		tab.until(isLive)
		tab.clean()
		tab.eval(`new Promise((done) => {
			document.addEventListener("securitypolicyviolation", done, {once: true});
			document.body.insertAdjacentHTML("beforeend", ` + "`" + bad + "`" + `);
		}).then(() => {})`)
		require.NotEmpty(t, tab.complaints(), bad)
		tab.visit("about:blank")
	}
}

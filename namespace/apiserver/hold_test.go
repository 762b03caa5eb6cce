package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver"
	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// TestDeletionOnHold checks DELETE of a namespace with a deletion grace. The answer shows the
// namespace as Active and on hold, with one warning. A DELETE that really deletes has no warning.
func TestDeletionOnHold(t *testing.T) {
	const at = "/api/v1/namespaces/x"
	e := newEnv(t, nil)
	e.must(http.StatusCreated, "POST", "/api/v1/namespaces", `{"metadata":{"name":"x","annotations":{"nslifecycle.io/deletion-grace":"24h"}}}`)
	for _, target := range []string{at + "?dryRun=All", at, at} {
		a := e.must(http.StatusOK, "DELETE", target, "")
		require.Contains(t, a.Body, `"phase":"Active"`)
		require.Contains(t, a.Body, `"nslifecycle.io/delete-after":`)
		require.Len(t, a.Header.Values("Warning"), 1)
		require.Regexp(t, `^299 - "namespaces \\"x\\" is not deleted yet: it is on hold until 2\d\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ and stays writable until then; to restore it, remove the annotation nslifecycle.io/delete-after; to delete it now, remove nslifecycle.io/deletion-grace and DELETE it again"$`,
			a.Header.Get("Warning"))
	}
	_, err := e.registry.DeleteAfter(t.Context(), "x", declare.Hold{Until: time.Now()}, namespace.Preconditions{})
	require.NoError(t, err)
	a := e.must(http.StatusOK, "DELETE", at, "")
	require.Contains(t, a.Body, `"phase":"Terminating"`)
	require.Empty(t, a.Header.Values("Warning"), "its time had come")
}

// keepers returns the options of a server that takes the user from the header "User". Users
// labeler and owner may write namespaces. User owner may also delete namespace x.
func keepers(t *testing.T) *apiserver.Options {
	t.Helper()
	write := []authorization.Rule{{Verbs: []string{"get", "create", "update", "patch"}, Resources: []string{"namespaces", "namespaces/finalize"}}}
	g, err := authorization.New([]authorization.Grant{
		{Users: []string{"labeler", "owner"}, Cluster: true, Rules: write},
		{Users: []string{"owner"}, Namespaces: []string{"x"}, Rules: []authorization.Rule{{Verbs: []string{"delete"}, Resources: []string{"namespaces"}}}},
	})
	require.NoError(t, err)
	return &apiserver.Options{Authorizer: g, Authenticate: func(r *http.Request) (authorization.User, error) {
		return authorization.User{Name: r.Header.Get("User")}, nil
	}}
}

const (
	laterHold = `"nslifecycle.io/delete-after":"{\"until\":\"2130-01-02T03:04:05Z\"}"`
	pastHold  = `"nslifecycle.io/delete-after":"{\"until\":\"2020-01-02T03:04:05Z\"}"`
)

// TestHoldNeedsDelete checks that only a user with permission to delete a namespace may put it
// on hold or move the end of a hold, by any kind of write. Other users may change the rest of
// a namespace on hold, and may remove the hold.
func TestHoldNeedsDelete(t *testing.T) {
	e := newEnv(t, keepers(t))
	requests := func(user, annotations string) []answer {
		body := declaring(annotations)
		return []answer{
			e.do("PUT", x, body, "User", user),
			e.do("PATCH", x, body, "User", user, "Content-Type", merge),
			e.do("PATCH", x, body, "User", user, "Content-Type", "application/strategic-merge-patch+json"),
			e.do("PATCH", x+"?fieldManager=m&force=true", body, "User", user, "Content-Type", "application/apply-patch+yaml"),
		}
	}
	refused := func(answers ...answer) {
		t.Helper()
		for _, a := range answers {
			require.Equal(t, http.StatusForbidden, a.Code, a.Body)
			require.Contains(t, a.text("message"), `User "labeler" cannot delete resource "namespaces" in API group ""`)
		}
	}
	refused(e.do("POST", all, declaring(laterHold), "User", "labeler"),
		e.do("PATCH", x+"?fieldManager=m", declaring(laterHold), "User", "labeler", "Content-Type", "application/apply-patch+yaml"))
	require.Empty(t, e.contents())
	generated := strings.Replace(declaring(laterHold), `"name":"x"`, `"generateName":"x"`, 1)
	require.Equal(t, http.StatusForbidden, e.do("POST", all, generated, "User", "owner").Code, "it may delete x alone")

	e.must(http.StatusCreated, "POST", all, declaring(legal), "User", "labeler")
	before := e.contents()
	refused(requests("labeler", laterHold)...)
	refused(requests("labeler", pastHold)...)
	refused(e.do("PUT", x+"?dryRun=All", declaring(laterHold), "User", "labeler"))
	require.Equal(t, before, e.contents())
	for _, a := range requests("owner", laterHold) {
		require.Equal(t, http.StatusOK, a.Code, a.Body)
	}
	version := e.do("GET", x, "", "User", "owner").text("metadata", "resourceVersion")
	refused(requests("labeler", pastHold)...)
	for _, a := range requests("labeler", laterHold+`,"a":"b"`) {
		require.Equal(t, http.StatusOK, a.Code, "it leaves the hold as it is: %s", a.Body)
	}
	old := strings.Replace(declaring(laterHold), `"name":"x"`, `"name":"x","resourceVersion":"`+version+`"`, 1)
	e.do("PUT", x, old, "User", "labeler").status(http.StatusConflict, `{"reason":"Conflict","details":{"name":"x","kind":"namespaces"},`+
		`"message":"Operation cannot be fulfilled on namespaces \"x\": the object has been modified; please apply your changes to the latest version and try again"}`)
	e.must(http.StatusOK, "PUT", x+"/finalize", strings.Replace(declaring(pastHold), `"metadata"`, `"spec":{"finalizers":["kubernetes"]},"metadata"`, 1), "User", "labeler")
	e.must(http.StatusOK, "PUT", x, declaring(`"a":"b"`), "User", "labeler")
}

// TestHoldNeedsDeleteOfWhatIsReplaced checks writes whose resourceVersion differs from the
// version that the authorization check has read. They fail with a conflict, so that a
// concurrent change of the hold cannot bypass the check.
func TestHoldNeedsDeleteOfWhatIsReplaced(t *testing.T) {
	e := newEnv(t, keepers(t))
	e.must(http.StatusCreated, "POST", all, declaring(laterHold), "User", "owner")
	guess := strings.Replace(declaring(laterHold), `"name":"x"`, `"name":"x","resourceVersion":"1000"`, 1)
	for _, a := range []answer{
		e.do("PUT", x, guess, "User", "labeler"),
		e.do("PATCH", x, guess, "User", "labeler", "Content-Type", merge),
	} {
		require.Equal(t, http.StatusConflict, a.Code, a.Body)
	}
}

// TestCreatedOnHold checks that creating a namespace on hold returns the same warning as
// DELETE. If the hold has already expired, as in an old export, the create is refused.
func TestCreatedOnHold(t *testing.T) {
	e := newEnv(t, nil)
	e.do("POST", all, declaring(pastHold)).status(http.StatusUnprocessableEntity, `{"reason":"Invalid",
		"message":"Namespace \"x\" is invalid: metadata.annotations[nslifecycle.io/delete-after]: Invalid value: \"{\\\"until\\\":\\\"2020-01-02T03:04:05Z\\\"}\": until is in the past, so the namespace would be deleted at once: omit the annotation",
		"details":{"name":"x","kind":"Namespace","causes":[{"reason":"FieldValueInvalid","field":"metadata.annotations[nslifecycle.io/delete-after]",
			"message":"Invalid value: \"{\\\"until\\\":\\\"2020-01-02T03:04:05Z\\\"}\": until is in the past, so the namespace would be deleted at once: omit the annotation"}]}}`)
	require.Empty(t, e.contents())
	const want = `299 - "namespaces \"x\" is not deleted yet: it is on hold until 2130-01-02T03:04:05Z and stays writable until then; to restore it, remove the annotation nslifecycle.io/delete-after; to delete it now, DELETE it"`
	a := e.must(http.StatusCreated, "POST", all+"?dryRun=All", declaring(laterHold))
	require.Equal(t, []string{want}, a.Header.Values("Warning"))
	a = e.must(http.StatusCreated, "PATCH", x+"?fieldManager=m", declaring(laterHold), "Content-Type", "application/apply-patch+yaml")
	require.Equal(t, []string{want}, a.Header.Values("Warning"))
	a = e.must(http.StatusCreated, "POST", x+"/configmaps", `{"metadata":{"name":"c","annotations":{`+laterHold+`}}}`)
	require.Empty(t, a.Header.Values("Warning"), "content is not on hold")
}

// TestTakenOffIsReported checks that a write that removes a protection or a hold returns a warning.
// A PUT of an old manifest can remove them by accident.
func TestTakenOffIsReported(t *testing.T) {
	e := newEnv(t, nil)
	e.must(http.StatusCreated, "POST", all, declaring(laterHold, legal, backups, `"a":"b"`))
	held := `299 - "namespaces \"x\" is no longer on hold: it will not be deleted at 2130-01-02T03:04:05Z"`
	both := `299 - "namespaces \"x\" is no longer protected from deletion by backups, legal"`
	dry := e.must(http.StatusOK, "PUT", x+"?dryRun=All", declaring(`"a":"b"`))
	require.Equal(t, []string{held, both}, dry.Header.Values("Warning"))
	a := e.must(http.StatusOK, "PATCH", x, `{"metadata":{"annotations":{"nslifecycle.io/delete-after":null,"a":null}}}`, "Content-Type", merge)
	require.Equal(t, []string{held}, a.Header.Values("Warning"))
	a = e.must(http.StatusOK, "PUT", x, declaring(legal))
	require.Equal(t, []string{`299 - "namespaces \"x\" is no longer protected from deletion by backups"`}, a.Header.Values("Warning"))
	a = e.must(http.StatusOK, "PUT", x, declaring(`"protection.nslifecycle.io/legal":"{\"owner\":\"b\",\"reason\":\"c\"}"`))
	require.Empty(t, a.Header.Values("Warning"), "it is protected still")
	a = e.must(http.StatusOK, "PUT", x+"/finalize", `{"metadata":{"name":"x"},"spec":{"finalizers":["kubernetes"]}}`)
	require.Empty(t, a.Header.Values("Warning"))

	many := make([]string, 30)
	for i := range many {
		many[i] = strings.Replace(legal, "legal", fmt.Sprintf("p%02d", i), 1)
	}
	e.must(http.StatusOK, "PUT", x, declaring(many...))
	a = e.must(http.StatusOK, "PUT", x, declaring(legal))
	require.Equal(t, []string{`299 - "namespaces \"x\" is no longer protected from deletion by p00, p01, p02, p03, p04, p05, p06, p07, p08, p09 and 20 more"`}, a.Header.Values("Warning"))
	e.must(http.StatusOK, "PUT", x, declaring(laterHold))
	e.must(http.StatusOK, "DELETE", x, "")
	a = e.must(http.StatusOK, "PUT", x, declaring(`"a":"b"`))
	require.Empty(t, a.Header.Values("Warning"), "it meant nothing any more (R3)")
}

// TestDeclarationsWarn checks the warnings of writes. A write that sets or moves a hold, or sets
// a grace, returns a warning with the effect. A write with an unknown annotation returns a
// warning with the known annotations. A hold in the past is refused.
func TestDeclarationsWarn(t *testing.T) {
	e := newEnv(t, nil)
	onHold := `299 - "namespaces \"x\" is not deleted yet: it is on hold until %s and stays writable until then; to restore it, remove the annotation nslifecycle.io/delete-after; to delete it now, DELETE it"`
	graced := `299 - "namespaces \"x\" has a grace: DELETE puts it on hold for 24h0m0s; until then it stays Active and its content can be created and changed"`
	slip := `299 - "the annotation \"nslifecycle.io/deletion-grase\" is unknown and has no effect; known are nslifecycle.io/delete-after, nslifecycle.io/deletion-grace, protection.nslifecycle.io/NAME and waiver.nslifecycle.io/NAME"`
	domain := `299 - "the annotation \"protektion.nslifecycle.io/x\" is unknown and has no effect; known are nslifecycle.io/delete-after, nslifecycle.io/deletion-grace, protection.nslifecycle.io/NAME and waiver.nslifecycle.io/NAME"`
	a := e.must(http.StatusCreated, "POST", all, declaring(`"nslifecycle.io/deletion-grase":"24h","protektion.nslifecycle.io/x":"{}"`))
	require.Equal(t, []string{slip, domain}, a.Header.Values("Warning"))
	a = e.must(http.StatusOK, "PUT", x, declaring(laterHold))
	require.Equal(t, []string{fmt.Sprintf(onHold, "2130-01-02T03:04:05Z")}, a.Header.Values("Warning"))
	sooner := strings.Replace(laterHold, "2130", "2129", 1)
	a = e.must(http.StatusOK, "PATCH", x, declaring(sooner), "Content-Type", merge)
	require.Equal(t, []string{fmt.Sprintf(onHold, "2129-01-02T03:04:05Z")}, a.Header.Values("Warning"))
	a = e.must(http.StatusOK, "PATCH", x, declaring(sooner, `"a":"b"`), "Content-Type", merge)
	require.Empty(t, a.Header.Values("Warning"))
	a = e.must(http.StatusOK, "PUT", x, declaring(sooner, `"nslifecycle.io/deletion-grace":"24h"`))
	require.Equal(t, []string{graced}, a.Header.Values("Warning"))
	before := e.contents()
	for _, a := range []answer{
		e.do("PUT", x, declaring(pastHold)), e.do("PATCH", x, declaring(pastHold), "Content-Type", merge),
		e.do("PATCH", x+"?fieldManager=m&force=true", declaring(pastHold), "Content-Type", "application/apply-patch+yaml"),
	} {
		require.Equal(t, http.StatusUnprocessableEntity, a.Code, a.Body)
		require.Contains(t, a.text("message"), "until is in the past, so the namespace would be deleted at once: omit the annotation")
	}
	require.Equal(t, before, e.contents())
}

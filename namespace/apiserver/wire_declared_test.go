package apiserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	legal   = `"protection.nslifecycle.io/legal":"{\"owner\":\"team-a\",\"reason\":\"contract until May\"}"`
	backups = `"protection.nslifecycle.io/backups":"{\"owner\":\"ops\",\"reason\":\"the last copy\"}"`
	merge   = "application/merge-patch+json"

	// protectedByBoth is the answer to DELETE of a namespace with both protections.
	protectedByBoth = `{"reason":"Forbidden","message":"namespaces \"x\" is forbidden: deletion is protected by backups (owner ops: the last copy),` +
		` legal (owner team-a: contract until May); remove the annotations protection.nslifecycle.io/backups, protection.nslifecycle.io/legal first",
		"details":{"name":"x","kind":"namespaces","causes":[
			{"reason":"NamespaceProtected","message":"protected by backups (owner ops: the last copy)","field":"metadata.annotations[protection.nslifecycle.io/backups]"},
			{"reason":"NamespaceProtected","message":"protected by legal (owner team-a: contract until May)","field":"metadata.annotations[protection.nslifecycle.io/legal]"}]}}`
)

// declaring returns namespace x in JSON with the given annotations.
func declaring(annotations ...string) string {
	return `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","annotations":{` + strings.Join(annotations, ",") + `}}}`
}

// TestWire_Protections checks the effect of protections on requests.
func TestWire_Protections(t *testing.T) {
	t.Run("DELETE", func(t *testing.T) {
		e := newEnv(t, nil)
		e.must(http.StatusCreated, "POST", all, declaring(legal, backups))
		before := e.contents()
		e.do("DELETE", x, "").status(http.StatusForbidden, protectedByBoth)
		e.do("DELETE", x+"?dryRun=All", "").status(http.StatusForbidden, protectedByBoth)
		e.do("DELETE", x, `{"dryRun":["All"],"propagationPolicy":"Background","gracePeriodSeconds":0}`).status(http.StatusForbidden, protectedByBoth)
		e.do("DELETE", x+"?uid=A", "").status(http.StatusConflict, `{"reason":"Conflict","message":"Operation cannot be fulfilled on namespaces \"x\":`+
			` Precondition failed: UID in precondition: A, UID in object meta: `+e.must(http.StatusOK, "GET", x, "").text("metadata", "uid")+`",
			"details":{"name":"x","kind":"namespaces"}}`)
		require.Equal(t, before, e.contents())

		e.must(http.StatusOK, "PATCH", x, `{"metadata":{"annotations":{"protection.nslifecycle.io/backups":null}}}`, "Content-Type", merge)
		a := e.do("DELETE", x, "")
		require.Equal(t, http.StatusForbidden, a.Code)
		require.Contains(t, a.text("message"), "protected by legal (owner team-a: contract until May); remove the annotation protection.nslifecycle.io/legal first")
		e.must(http.StatusOK, "PATCH", x, `{"metadata":{"annotations":{"protection.nslifecycle.io/legal":null}}}`, "Content-Type", merge)
		require.Equal(t, "Active", e.must(http.StatusOK, "GET", x, "").text("status", "phase"))
		require.Equal(t, "Terminating", e.must(http.StatusOK, "DELETE", x+"?dryRun=All", "").text("status", "phase"))
		require.Equal(t, "Terminating", e.must(http.StatusOK, "DELETE", x, "").text("status", "phase"))
	})
	t.Run("DELETE of an immortal name", func(t *testing.T) {
		e := newEnv(t, nil)
		e.must(http.StatusCreated, "POST", all, strings.Replace(declaring(legal), `"x"`, `"default"`, 1))
		e.do("DELETE", all+"/default", "").status(http.StatusForbidden, `{"reason":"Forbidden",
			"message":"namespaces \"default\" is forbidden: this namespace may not be deleted","details":{"name":"default","kind":"namespaces"}}`)
	})
	t.Run("content is deleted as ever", func(t *testing.T) {
		e := newEnv(t, nil)
		e.must(http.StatusCreated, "POST", all, declaring(legal))
		for _, name := range []string{"a", "b"} {
			e.must(http.StatusCreated, "POST", x+"/configmaps", `{"metadata":{"name":"`+name+`","annotations":{`+backups+`}}}`)
		}
		e.must(http.StatusOK, "DELETE", x+"/configmaps/a", "")
		e.must(http.StatusOK, "DELETE", x+"/configmaps", "")
		e.must(http.StatusNotFound, "GET", x+"/configmaps/b", "")
		e.must(http.StatusCreated, "POST", x+"/configmaps", `{"metadata":{"name":"c","annotations":{"protection.nslifecycle.io/of-content":"means nothing"}}}`)
	})
}

// TestWire_UnreadableDeclarations checks that every kind of write refuses a malformed declaration.
func TestWire_UnreadableDeclarations(t *testing.T) {
	e := newEnv(t, nil)
	e.do("POST", all, declaring(`"protection.nslifecycle.io/legal":"yes"`)).status(http.StatusUnprocessableEntity, `{"reason":"Invalid",
		"message":"Namespace \"x\" is invalid: metadata.annotations[protection.nslifecycle.io/legal]: Invalid value: \"yes\": must be a JSON object with owner, reason",
		"details":{"name":"x","kind":"Namespace","causes":[{"reason":"FieldValueInvalid","field":"metadata.annotations[protection.nslifecycle.io/legal]",
			"message":"Invalid value: \"yes\": must be a JSON object with owner, reason"}]}}`)
	e.must(http.StatusCreated, "POST", all, declaring(legal))
	for key, value := range map[string]string{
		"protection.nslifecycle.io/legal": `{}`,
		"waiver.nslifecycle.io/a":         `{"source":"pods","by":"ada","reason":"gone"}`,
		"nslifecycle.io/delete-after":     `tomorrow`,
		"nslifecycle.io/deletion-grace":   `a day`,
		"Protection.nslifecycle.io/legal": `{}`,
	} {
		bad := fmt.Sprintf("%q:%q", key, value)
		for _, a := range []answer{
			e.do("PUT", x, declaring(bad)),
			e.do("PATCH", x, declaring(bad), "Content-Type", merge),
			e.do("PATCH", x, declaring(bad), "Content-Type", "application/strategic-merge-patch+json"),
			e.do("PATCH", x+"?fieldManager=m&force=true", declaring(bad), "Content-Type", "application/apply-patch+yaml"),
		} {
			require.Equal(t, http.StatusUnprocessableEntity, a.Code, a.Body)
			require.Contains(t, a.text("message"), `Namespace "x" is invalid: metadata.annotations`)
			require.Contains(t, a.text("message"), key)
		}
	}
	require.Contains(t, e.must(http.StatusOK, "GET", x, "").Body, legal)
}

// TestR1_ProtectedWhileTerminating checks that a protection of a terminating namespace is
// refused. The namespace still ends with its last finalizer.
func TestR1_ProtectedWhileTerminating(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	e.must(http.StatusOK, "DELETE", x, "")
	e.must(http.StatusUnprocessableEntity, "PUT", x, declaring(legal))
	require.NotContains(t, e.must(http.StatusOK, "GET", x, "").Body, legal)
	e.must(http.StatusOK, "PUT", x+"/finalize", `{"metadata":{"name":"x"},"spec":{}}`)
	e.must(http.StatusNotFound, "GET", x, "")
}

// TestR3_ProtectedWhileTerminating checks that a refused protection does not change the deletion.
// A second DELETE returns the same object with the same timestamp.
func TestR3_ProtectedWhileTerminating(t *testing.T) {
	e := newEnv(t, nil)
	e.namespace("x")
	stamp := e.must(http.StatusOK, "DELETE", x, "").text("metadata", "deletionTimestamp")
	e.do("PUT", x, declaring(legal, backups)).status(http.StatusUnprocessableEntity, `{"reason":"Invalid",
		"message":"Namespace \"x\" is invalid: [metadata.annotations[protection.nslifecycle.io/backups]: Forbidden: `+tooLate(stamp)+`, metadata.annotations[protection.nslifecycle.io/legal]: Forbidden: `+tooLate(stamp)+`]",
		"details":{"name":"x","kind":"Namespace","causes":[
			{"reason":"FieldValueForbidden","field":"metadata.annotations[protection.nslifecycle.io/backups]","message":"Forbidden: `+tooLate(stamp)+`"},
			{"reason":"FieldValueForbidden","field":"metadata.annotations[protection.nslifecycle.io/legal]","message":"Forbidden: `+tooLate(stamp)+`"}]}}`)
	a := e.must(http.StatusOK, "DELETE", x, "")
	require.Equal(t, stamp, a.text("metadata", "deletionTimestamp"))
	require.Equal(t, a.Body, e.must(http.StatusOK, "GET", x, "").Body)
	e.must(http.StatusForbidden, "POST", x+"/configmaps", `{"metadata":{"name":"late"}}`)
}

func tooLate(since string) string {
	return "the namespace has been terminating since " + since + "; no protection, hold or grace stops or delays that: omit the annotation"
}

// TestR3_ProtectionRacesDeletion sends a protection and a DELETE concurrently. The server accepts
// exactly one of them.
func TestR3_ProtectionRacesDeletion(t *testing.T) {
	e := newEnv(t, nil)
	for i := range 50 {
		name := fmt.Sprintf("race-%d", i)
		at := all + "/" + name
		e.namespace(name)
		var protect, remove answer
		var both sync.WaitGroup
		both.Go(func() {
			protect = e.do("PATCH", at, `{"metadata":{"annotations":{`+legal+`}}}`, "Content-Type", merge)
		})
		both.Go(func() { remove = e.do("DELETE", at, "") })
		both.Wait()
		if e.must(http.StatusOK, "GET", at, "").text("status", "phase") == "Active" {
			require.Equal(t, http.StatusOK, protect.Code, protect.Body)
			require.Equal(t, http.StatusForbidden, remove.Code, remove.Body)
		} else {
			require.Equal(t, http.StatusUnprocessableEntity, protect.Code, protect.Body)
			require.Equal(t, http.StatusOK, remove.Code, remove.Body)
		}
	}
}

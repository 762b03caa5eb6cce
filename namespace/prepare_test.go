package namespace_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

func isRefusal(err error) bool {
	var e *namespace.Error
	if !errors.As(err, &e) {
		return false
	}
	kinds := []error{namespace.ErrInvalid, namespace.ErrBadRequest, namespace.ErrConflict, namespace.ErrForbidden}
	return slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) })
}

func named(name string, finalizers ...finalizer.Name) namespace.Namespace {
	return namespace.Namespace{Meta: namespace.Meta{Name: name}, Spec: namespace.Spec{Finalizers: finalizer.NewSet(finalizers...)}}
}

func TestPrepareCreate(t *testing.T) {
	t.Parallel()
	asked := full()
	kept := full()
	n := namespace.PrepareCreate(asked, finalizer.Kubernetes, "uid-new", now.Add(time.Millisecond))
	require.Empty(t, cmp.Diff(kept, asked), "the request is not changed")
	want := full()
	want.SelfLink, want.ResourceVersion, want.Generation = "", "", 0
	want.UID, want.CreationTimestamp = "uid-new", phase.At(now)
	want.DeletionTimestamp, want.DeletionGracePeriodSeconds = phase.Time{}, nil
	want.Status = namespace.Status{Phase: phase.Active}
	require.Empty(t, cmp.Diff(want, n))
	n.Labels["x"] = "y"
	require.Empty(t, cmp.Diff(kept, asked), "the request is not shared")

	plain := namespace.PrepareCreate(named("x"), "", "u", now)
	require.Equal(t, namespace.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, plain.TypeMeta)
	require.Equal(t, map[string]string{"kubernetes.io/metadata.name": "x"}, plain.Labels)
	require.NoError(t, namespace.ValidateCreate(plain))
}

func TestR5_TokenIsAddedAtCreation(t *testing.T) {
	t.Parallel()
	type names = []finalizer.Name
	tests := []struct {
		name  string
		asked names
		token finalizer.Name
		want  names
	}{
		{"missing", nil, "", names{"kubernetes"}},
		{"missing, at the end", names{"b/b", "a/a"}, "kubernetes", names{"b/b", "a/a", "kubernetes"}},
		{"there, order is kept", names{"kubernetes", "openshift.com/origin"}, "kubernetes", names{"kubernetes", "openshift.com/origin"}},
		{"the host's own", names{"a/a"}, "example.com/tenants", names{"a/a", "example.com/tenants"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := namespace.PrepareCreate(named("x", tt.asked...), tt.token, "u", now)
			require.Equal(t, tt.want, n.Spec.Finalizers.Names())
			require.Equal(t, phase.Active, n.Status.Phase)
		})
	}
}

// attempts returns the documents that a client may send.
func attempts() []namespace.Namespace {
	grace := int64(5)
	var all []namespace.Namespace
	for _, set := range sequences(three) {
		for _, meta := range []finalizer.Set{{}, finalizer.NewSet("example.com/audit", "example.com/more")} {
			for _, p := range []phase.Phase{"", phase.Active, phase.Terminating} {
				for _, deletion := range []time.Time{{}, now} {
					n := namespace.Namespace{
						Meta: namespace.Meta{Name: "x", UID: "uid-forged", ResourceVersion: "99", Generation: 9, SelfLink: "/forged",
							CreationTimestamp: phase.At(now), DeletionTimestamp: phase.At(deletion), Finalizers: meta,
							Labels: map[string]string{namespace.NameLabel: "forged", "team": "a"}},
						Spec:   namespace.Spec{Finalizers: set},
						Status: namespace.Status{Phase: p, Conditions: []phase.Condition{{Type: "forged", Status: phase.True}}},
					}
					if !deletion.IsZero() {
						n.DeletionGracePeriodSeconds = &grace
					}
					all = append(all, n)
				}
			}
		}
	}
	return all
}

// requestsOn calls check for every request on every small state.
func requestsOn(check func(request string, old, asked, next namespace.Namespace, err error)) {
	prepared := []struct {
		name     string
		prepare  func(old, asked namespace.Namespace) namespace.Namespace
		validate func(old, next namespace.Namespace) error
	}{
		{"update", namespace.PrepareUpdate, func(old, next namespace.Namespace) error { return namespace.ValidateUpdate(old, next) }},
		{"status", namespace.PrepareStatus, namespace.ValidateStatus},
		{"finalize", namespace.PrepareFinalize, namespace.ValidateFinalize},
	}
	tries := attempts()
	i := 0
	for old := range stored() {
		for _, asked := range tries {
			if i++; underRace && i%7 != 0 {
				continue
			}
			for _, r := range prepared {
				next := r.prepare(old, asked)
				check(r.name, old, asked, next, r.validate(old, next))
			}
		}
		check("delete", old, old, namespace.MarkDeleted(old, now), nil)
	}
}

func TestR1_RemovableExactlyWhenNothingHoldsIt(t *testing.T) {
	t.Parallel()
	for n := range stored() {
		want := !n.DeletionTimestamp.IsZero() && n.Spec.Finalizers.Len() == 0 && n.Finalizers.Len() == 0
		require.Equal(t, want, namespace.Removable(n))
	}
}

func TestR2_NoRequestMakesThePhaseDisagree(t *testing.T) {
	t.Parallel()
	requestsOn(func(request string, old, asked, next namespace.Namespace, err error) {
		if err == nil && next.Status.Phase != phase.Of(next.DeletionTimestamp.Time) {
			t.Fatalf("%s stores phase %s with deletion %v", request, next.Status.Phase, next.DeletionTimestamp)
		}
		wrong := asked.Status.Phase != "" && asked.Status.Phase != old.Phase()
		if request == "status" && wrong != (err != nil) {
			t.Fatalf("a status of phase %q with deletion %v: %v", asked.Status.Phase, old.DeletionTimestamp, err)
		}
	})
}

func TestR3_NoRequestChangesTheDeletionTimestamp(t *testing.T) {
	t.Parallel()
	requestsOn(func(request string, old, asked, next namespace.Namespace, _ error) {
		want := old.DeletionTimestamp
		if request == "delete" && want.IsZero() {
			want = phase.At(now)
		}
		if !next.DeletionTimestamp.Equal(want) || old.Phase() == phase.Terminating && next.Phase() != phase.Terminating {
			t.Fatalf("%s changed the deletion from %v to %v", request, old.DeletionTimestamp, next.DeletionTimestamp)
		}
	})
}

func TestR4_OnlyFinalizeChangesSpecFinalizers(t *testing.T) {
	t.Parallel()
	requestsOn(func(request string, old, asked, next namespace.Namespace, err error) {
		want := old.Spec.Finalizers
		if request == "finalize" {
			want = asked.Spec.Finalizers
		}
		if !next.Spec.Finalizers.Equal(want) {
			t.Fatalf("%s changed spec.finalizers from %v to %v", request, old.Spec.Finalizers.Names(), next.Spec.Finalizers.Names())
		}
		if request == "update" && err != nil { // silently: other changes cause the only refusal
			require.ErrorContains(t, err, "no new finalizers can be added")
		}
	})
	// Also without Prepare.
	old := namespace.PrepareCreate(named("x"), "", "u", earlier)
	forged := old
	forged.Spec.Finalizers = finalizer.Set{}
	require.ErrorContains(t, namespace.ValidateUpdate(old, forged), "spec.finalizers: Forbidden: only finalize may change them")
	require.ErrorContains(t, namespace.ValidateStatus(old, forged), "spec.finalizers: Forbidden: only finalize may change them")
}

func TestR8_NoRequestForgesAnIncarnation(t *testing.T) {
	t.Parallel()
	requestsOn(func(request string, old, _, next namespace.Namespace, _ error) {
		if next.UID != old.UID || !next.CreationTimestamp.Equal(old.CreationTimestamp) || next.ResourceVersion != old.ResourceVersion ||
			next.Generation != old.Generation || next.SelfLink != old.SelfLink || next.Labels[namespace.NameLabel] != "x" ||
			(next.DeletionGracePeriodSeconds == nil) != (old.DeletionGracePeriodSeconds == nil) {
			t.Fatalf("%s changed what the server owns: %+v", request, next.Meta)
		}
	})
}

func TestRequestsChangeTheirPartOnly(t *testing.T) {
	t.Parallel()
	requestsOn(func(request string, old, asked, next namespace.Namespace, _ error) {
		want := old.DeepCopy()
		switch request {
		case "update":
			want.Finalizers, want.Status.Phase = asked.Finalizers, old.Phase()
			want.Labels = map[string]string{namespace.NameLabel: "x", "team": "a"}
		case "status":
			want.Status = asked.Status
			if want.Status.Phase == "" {
				want.Status.Phase = old.Phase()
			}
		case "finalize":
			want.Spec, want.Status.Phase = asked.Spec, old.Phase()
		case "delete":
			want.Status.Phase = phase.Terminating
			if want.DeletionTimestamp.IsZero() {
				want.DeletionTimestamp = phase.At(now)
			}
		}
		if !reflect.DeepEqual(want, next) { // cmp takes ten times as long
			t.Fatalf("%s: %s", request, cmp.Diff(want, next))
		}
	})
}

func TestMarkDeleted(t *testing.T) {
	t.Parallel()
	n := namespace.PrepareCreate(named("x"), "", "u", earlier)
	first := namespace.MarkDeleted(n, now.Add(time.Millisecond))
	require.Equal(t, phase.At(now), first.DeletionTimestamp)
	require.Equal(t, phase.Terminating, first.Status.Phase)
	require.True(t, n.DeletionTimestamp.IsZero(), "the argument is not changed")
	require.Empty(t, cmp.Diff(first, namespace.MarkDeleted(first, now.Add(time.Hour))))
	for _, at := range []time.Time{{}, time.Time{}.Add(1)} {
		require.Equal(t, phase.Terminating, namespace.MarkDeleted(n, at).Phase(), "a zero clock must not cancel the deletion")
	}
}

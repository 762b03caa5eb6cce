package registry_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// A link of the admission chain that lets each namespace have as many notes as its
// allowance says. What is used is written in the commit that creates or deletes
// notes, so it is exact however many do so at once.
type allowance struct{}

var (
	notes      = namespace.ResourceType{Group: "example.com", Name: "notes"}
	allowances = namespace.ResourceType{Group: "example.com", Name: "allowances"}
)

func (allowance) Admit(ctx context.Context, w *registry.Write) error {
	if len(w.Objects) == 0 || w.Objects[0].Type.Name() != notes {
		return nil
	}
	delta := 0
	for _, o := range w.Objects {
		switch {
		case o.Old == nil: // created
			delta++
		case o.New == nil: // removed
			delta--
		}
	}
	allowed, err := w.Get(ctx, allowances, "notes")
	if err != nil {
		return err
	}
	var spec, status struct{ Notes int }
	if err := json.Unmarshal(allowed.Fields["spec"], &spec); err != nil {
		return err
	}
	if used := allowed.Fields["status"]; used != nil {
		if err := json.Unmarshal(used, &status); err != nil {
			return err
		}
	}
	if status.Notes += delta; delta > 0 && status.Notes > spec.Notes {
		return fmt.Errorf("only %d notes are allowed", spec.Notes)
	}
	updated := allowed.DeepCopy()
	if updated.Fields["status"], err = json.Marshal(status); err != nil {
		return err
	}
	return w.Replace(allowed, updated)
}

func ExampleAdmission() {
	ctx := context.Background()
	s, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	r, err := registry.New(s, &registry.Options{
		Types: []registry.ResourceType{
			{Group: "example.com", Version: "v1", Resource: "notes", Kind: "Note", Namespaced: true},
			{Group: "example.com", Version: "v1", Resource: "allowances", Kind: "Allowance", Namespaced: true, Status: true},
		},
		Admission: []registry.Admission{allowance{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	content := func(resource namespace.ResourceType) *registry.Content {
		c, err := r.Content(resource)
		if err != nil {
			fmt.Println(err)
		}
		return c
	}
	if _, err := r.Create(ctx, namespace.Namespace{Meta: namespace.Meta{Name: "acme"}}); err != nil {
		fmt.Println(err)
	}
	two := registry.Object{Meta: namespace.Meta{Name: "notes"}, Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"Notes":2}`)}}
	if _, err := content(allowances).Create(ctx, "acme", two); err != nil {
		fmt.Println(err)
	}
	create := func(name string) {
		_, err := content(notes).Create(ctx, "acme", registry.Object{Meta: namespace.Meta{Name: name}})
		fmt.Println(name+":", err)
	}
	create("a")
	create("b")
	create("c")
	if _, err := content(notes).Delete(ctx, "acme", "a", namespace.Preconditions{}); err != nil {
		fmt.Println(err)
	}
	create("c")
	used, err := content(allowances).Get(ctx, "acme", "notes")
	fmt.Println(string(used.Fields["status"]), err)
	// Output:
	// a: <nil>
	// b: <nil>
	// c: notes.example.com "c" is forbidden: only 2 notes are allowed
	// c: <nil>
	// {"Notes":2} <nil>
}

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// intruder keeps trying to create content in a namespace, as clients do who do
// not know that it is being deleted.
type intruder struct {
	registry  *registry.Registry
	namespace string
	say       *timeline
	refused   chan struct{} // closed when it has been refused

	created, terminating, missing int // answers: yes, it is terminating, it is gone
}

// run tries until ctx ends.
func (i *intruder) run(ctx context.Context) error {
	content, err := i.registry.Content(events.Name())
	if err != nil {
		return err
	}
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	var once sync.Once
	for n := 0; ctx.Err() == nil; n++ {
		var o registry.Object
		o.GenerateName = "intruder-"
		_, err := content.Create(ctx, i.namespace, o)
		switch {
		case err == nil:
			i.created++
		case errors.Is(err, namespace.ErrTerminating):
			if i.terminating++; i.terminating == 1 {
				i.say.line("intruder refused: %v", err)
			}
			once.Do(func() { close(i.refused) })
		case errors.Is(err, namespace.ErrNotFound):
			i.missing++
			once.Do(func() { close(i.refused) })
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// sum tells how often the intruder succeeded.
func (i *intruder) sum() {
	i.say.line("intruder: %d events created before the end, %d refused while it was terminating, %d refused after removal",
		i.created, i.terminating, i.missing)
}

package deleter

import "context"

// Inventory is everything that is in a namespace.
type Inventory struct {
	Report  Report   // as [Composed.Look] has it
	Objects []Object // sorted by resource, then by name
}

// Object is one object of an [Inventory].
type Object struct {
	Resource Resource
	Item
}

// Inventory lists every object in the target, under the terms of [Composed.Look]. It
// is held in memory as a whole.
func (c *Composed) Inventory(ctx context.Context, target Target) (Inventory, error) {
	report, err := c.Look(ctx, target)
	return Inventory{Report: report}, err
}

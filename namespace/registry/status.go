package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/store"
)

const statusField = "status"

// withStatus returns the fields with another status; nil: none. It shares the
// values, not the map.
func withStatus(fields map[string]json.RawMessage, status json.RawMessage) map[string]json.RawMessage {
	if _, had := fields[statusField]; !had && status == nil {
		return fields
	}
	fields = maps.Clone(fields)
	delete(fields, statusField)
	if status != nil {
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields[statusField] = status
	}
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// UpdateStatus replaces the field status of an object, under the conditions of
// [Content.Update], and returns the object as stored. Nothing else changes, but
// metadata.managedFields unless they are nil. It makes no new generation. Of a type
// whose declaration does not have Status it is [namespace.ErrNotFound].
func (c *Content) UpdateStatus(ctx context.Context, ns string, o Object) (Object, error) {
	if !c.typ.Status {
		return Object{}, &namespace.Error{
			Kind: namespace.ErrNotFound, Resource: c.resource, Name: clip(o.Name),
			Message: fmt.Sprintf("%s %q: the resource type has no status: declare it with ResourceType.Status", c.resource, clip(o.Name)),
		}
	}
	return c.replaceObject(ctx, ns, o, UpdateStatus, func(old, asked Object) Object {
		managed := asked.ManagedFields
		asked.Meta, asked.Fields = old.Meta, withStatus(old.Fields, asked.Fields[statusField])
		asked.ResourceVersion = ""
		if managed != nil {
			asked.ManagedFields = managed
		}
		return asked
	})
}

// replaceObject carries out a request that replaces an object.
func (c *Content) replaceObject(ctx context.Context, ns string, o Object, op Operation, prepare func(old, asked Object) Object) (Object, error) {
	o, err := c.asked(ns, o)
	if err != nil {
		return Object{}, err
	}
	if err := checkAsked(c.resource, o.Meta); err != nil {
		return Object{}, err
	}
	t, err := c.target(ns, o.Name)
	if err != nil {
		return Object{}, err
	}
	var next Object
	entry, gone, err := c.mutate(ctx, t, c.dry, func(entry store.Entry) (plan, error) {
		old, err := decodeObject(entry)
		if err != nil {
			return plan{}, err
		}
		if err := checkSame(c.resource, old.Meta, o.Meta); err != nil {
			return plan{}, err
		}
		next = prepare(old, o)
		if err := c.validateUpdate(old, next); err != nil {
			return plan{}, err
		}
		if c.asks() {
			var p plan
			p, next, err = c.planAdmitted(ctx, ns, op, entry, old, next)
			return p, err
		}
		return c.planReplacement(next, entry)
	})
	return answerObject(next, entry, gone, err)
}

// planReplacement returns how next takes the place of what is stored.
func (c *Content) planReplacement(next Object, entry store.Entry) (plan, error) {
	if removable(next.Meta) {
		return plan{gone: true}, nil
	}
	value, err := c.encode(next)
	return plan{value: value, keep: err == nil && bytes.Equal(value, entry.Value)}, err
}

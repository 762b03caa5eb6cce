package main

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

//go:embed widget.json
var widgetSchema json.RawMessage

const maxTypes = 1000

// served returns the types of content: built-in types, widgets, and additional types without a
// schema.
func served(additional int) []kinds.Kind {
	list := []kinds.Kind{
		kinds.ConfigMaps(),
		kinds.Secrets(),
		kinds.ServiceAccounts(),
		kinds.Events(),
		kinds.ResourceQuotas(),
		kinds.LimitRanges(),
		kinds.Leases(),
		widgets(),
	}
	for i := range additional {
		list = append(list, kinds.Custom(registry.Type{
			Group: "example.com", Version: "v1", Resource: fmt.Sprintf("t%03d", i+1), Kind: fmt.Sprintf("T%03d", i+1), Namespaced: true,
		}))
	}
	return list
}

// widgets returns a custom type, as a CustomResourceDefinition would declare it.
func widgets() kinds.Kind {
	k := kinds.Custom(registry.Type{
		Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true,
		Status: true,
		Fields: []string{"spec.colour"},
	})
	k.ShortNames = []string{"wd"}
	k.Categories = []string{"all"}
	k.Schema = widgetSchema
	k.Columns = []kinds.Column{
		{Name: "Size", Type: "integer", Description: "The desired size.", Value: field("spec", "size")},
		{Name: "Ready", Type: "boolean", Description: "Whether it has the desired size.", Value: field("status", "ready")},
		{Name: "Colour", Type: "string", Description: "The color.", Priority: 1, Value: field("spec", "colour")},
		kinds.Age(),
	}
	return k
}

// field returns a function that returns a field of spec or status, or nil.
func field(part, name string) func(registry.Object) any {
	return func(o registry.Object) any {
		var fields map[string]any
		if json.Unmarshal(o.Fields[part], &fields) != nil {
			return nil
		}
		switch v := fields[name].(type) {
		case nil, bool, string:
			return v
		case float64:
			return int64(v)
		default:
			return fmt.Sprint(v)
		}
	}
}

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

// maxTypes is more than clusters have.
const maxTypes = 1000

// served are the types of content: those that kubectl knows, one of our own, and as
// many further ones without a schema.
func served(further int) []kinds.Kind {
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
	for i := range further {
		list = append(list, kinds.Custom(registry.ResourceType{
			Group: "example.com", Version: "v1", Resource: fmt.Sprintf("t%03d", i+1), Kind: fmt.Sprintf("T%03d", i+1), Namespaced: true,
		}))
	}
	return list
}

// widgets is a type of our own, as a CustomResourceDefinition would declare it.
func widgets() kinds.Kind {
	k := kinds.Custom(registry.ResourceType{
		Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true,
		Status: true,
		Fields: []string{"spec.colour"},
	})
	k.ShortNames = []string{"wd"}
	k.Categories = []string{"all"}
	k.Schema = widgetSchema
	k.Columns = []kinds.Column{
		{Name: "Size", Type: "integer", Description: "How large it is to be.", Value: field("spec", "size")},
		{Name: "Ready", Type: "boolean", Description: "Whether it is as large as it is to be.", Value: field("status", "ready")},
		{Name: "Colour", Type: "string", Description: "What it looks like.", Priority: 1, Value: field("spec", "colour")},
		kinds.Age(),
	}
	return k
}

// field returns the value of a column: a field of spec or status, or nothing.
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

package kinds_test

import (
	"encoding/json"
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/kinds"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// Custom declares a kind with a column and a schema.
func ExampleCustom() {
	widgets := kinds.Custom(registry.Type{
		Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true,
	})
	widgets.ShortNames = []string{"wd"}
	widgets.Schema = json.RawMessage(`{"type":"object","properties":{"spec":{"type":"object","properties":{
		"size":{"type":"integer","minimum":1}}}}}`)
	widgets.Columns = []kinds.Column{{
		Name: "Size", Type: "integer", Description: "The size of the widget.",
		Value: func(o registry.Object) any {
			var spec struct{ Size int64 }
			json.Unmarshal(o.Fields["spec"], &spec) // if there is no size, the cell is 0
			return spec.Size
		},
	}, kinds.Age()}
	if err := kinds.Check([]kinds.Kind{kinds.ConfigMaps(), widgets}); err != nil {
		fmt.Println(err)
		return
	}
	o := registry.Object{Fields: map[string]json.RawMessage{"spec": json.RawMessage(`{"size":3}`)}}
	o.Name = "left"
	for _, column := range widgets.Printed() {
		fmt.Printf("%s: %v\n", column.Name, column.Value(o))
	}
	// Output:
	// Name: left
	// Size: 3
	// Age: <unknown>
}

// Check refuses a short name that two kinds use.
func ExampleCheck() {
	clash := kinds.Custom(registry.Type{Version: "v1", Resource: "computers", Kind: "Computer", Namespaced: true})
	clash.ShortNames = []string{"cm"}
	fmt.Println(kinds.Check([]kinds.Kind{kinds.ConfigMaps(), clash}))
	// Output: kind "computers": configmaps already uses the name "cm"
}

package selector_test

import (
	"fmt"

	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

func ExampleParseLabels() {
	s, err := selector.ParseLabels("team=blue,stage in (test,prod),!frozen")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Matches(map[string]string{"team": "blue", "stage": "prod"}))
	fmt.Println(s.Matches(map[string]string{"team": "blue", "stage": "dev"}))
	// Output:
	// true
	// false
}

func ExampleParseFields() {
	s, err := selector.ParseFields("status.phase=Terminating")
	if err != nil {
		fmt.Println(err)
		return
	}
	fields := map[string]string{"status.phase": "Terminating"}
	fmt.Println(s.Matches(func(field string) string { return fields[field] }))
	fmt.Println(s.Check("metadata.name"))
	// Output:
	// true
	// field label not supported: status.phase
}

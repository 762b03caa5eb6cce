package syntax_test

import (
	"fmt"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
)

func ExampleLabel() {
	fmt.Println(syntax.Label("development"))
	fmt.Println(syntax.Label("a.b"))
	// Output:
	// []
	// [must not contain dots]
}

func ExampleQualifiedName() {
	fmt.Println(syntax.QualifiedName("example.com/agent"))
	fmt.Println(syntax.QualifiedName("/agent"))
	// Output:
	// []
	// [prefix part must be non-empty]
}

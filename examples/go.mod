module github.com/nslifecycle/nslifecycle/examples

go 1.25.0

require github.com/nslifecycle/nslifecycle v0.0.0

replace github.com/nslifecycle/nslifecycle => ../

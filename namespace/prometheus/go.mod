module github.com/nslifecycle/nslifecycle/namespace/prometheus

go 1.25.0

replace github.com/nslifecycle/nslifecycle => ../..

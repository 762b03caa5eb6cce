module github.com/nslifecycle/nslifecycle/examples

go 1.25.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/nslifecycle/nslifecycle v0.0.0
	github.com/stretchr/testify v1.11.1
	golang.org/x/sync v0.17.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/tidwall/btree v1.8.1 // indirect
	go.etcd.io/bbolt v1.4.3 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sys v0.29.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/nslifecycle/nslifecycle => ../

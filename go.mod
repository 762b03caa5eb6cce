module github.com/nslifecycle/nslifecycle

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.0.2
	github.com/google/go-cmp v0.7.0
	github.com/stretchr/testify v1.11.1
	github.com/tidwall/btree v1.8.1
	go.etcd.io/bbolt v1.4.3
	go.uber.org/multierr v1.11.0
	golang.org/x/sync v0.17.0
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	golang.org/x/sys v0.29.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

module github.com/nslifecycle/nslifecycle/store/postgres

go 1.25.0

require (
	github.com/jackc/pgx/v5 v5.9.2
	github.com/nslifecycle/nslifecycle v0.0.0
	github.com/stretchr/testify v1.11.1
)

require (
	github.com/anishathalye/porcupine v1.0.2 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/google/go-cmp v0.7.0
	github.com/kr/text v0.1.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.2 // indirect
	github.com/rogpeppe/go-internal v1.6.1 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sync v0.17.0 // indirect
	golang.org/x/text v0.29.0 // indirect
)

replace github.com/nslifecycle/nslifecycle => ../..

package apiserver

// Hooks are told what happens. Nil members are not called.
type Hooks struct{}

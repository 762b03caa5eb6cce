package registry

import "github.com/nslifecycle/nslifecycle/namespace"

// GateKeys returns where a registry with this prefix ([Options], empty: the
// default) keeps the gate of a namespace and its entry in the index of terminating
// ones: the gate exists exactly while the namespace is Active, the other one exactly
// while it is Terminating; both hold its uid. Either may be written again for the
// same uid ([Write.TouchGate]), so hold that it is there, not its revision. A host
// that keeps content outside of the store, in the same database, holds the gate in
// its own transactions (rule R6).
//
// A prefix that no registry can have is [namespace.ErrInvalid], a name that no
// namespace can have [namespace.ErrBadRequest].
func GateKeys(prefix, name string) (gate, terminating string, err error) {
	if prefix == "" {
		prefix = defaultPrefix
	}
	keys, err := newLayout(prefix)
	if err != nil {
		return "", "", err
	}
	if err := checkSegment(namespace.Resource, name); err != nil {
		return "", "", err
	}
	return keys.gate(name), keys.terminating(name), nil
}

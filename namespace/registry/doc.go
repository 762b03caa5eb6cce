// Package registry keeps namespaces and their content in a [store.Store] and enforces the
// rules about them: what may be created, changed and removed, and when (rules R1 to R8).
//
// A [Registry] serves the namespaces. Content consists of declared resource types
// ([Type]) and is served by [Registry.Content]. Semantics and messages follow
// Kubernetes; refusals are [*namespace.Error]. [Registry.Deleter] returns the deleter for
// packages pass and controller, which work on a Registry.
//
// # Gate
//
// A gate is a key that exists exactly while its namespace is Active. The commit that creates
// content requires the gate, and the commit that makes a namespace Terminating deletes it. No
// content can therefore be created in a namespace that is not Active (rule R6), regardless of
// how requests interleave and how many processes share the store.
//
// # Admission
//
// A chain of plugins ([Admission]) may change a write, refuse it, or add conditions and
// further writes to its transaction. An object count, for example, is exact without a lock.
//
// # Deletion and history
//
// After a namespace is removed, no current read returns its content. Earlier values remain
// readable at older positions through [store.Store.Watch] and [store.Store.List] until the
// store compacts its history.
//
// # Keys
//
// All keys begin with [Options].Prefix:
//
//	/{prefix}/namespaces/{name}           the namespace
//	/{prefix}/{type}/{namespace}/{name}   content
//	/{prefix}/{type}/{name}               content of a cluster-scoped type
//	/{prefix}/.gate/{name}                exists exactly while Active; the uid
//	/{prefix}/.terminating/{name}         exists exactly while Terminating; the uid. Controllers watch these
//	/{prefix}/.hold/{name}                exists exactly while Active and on hold; the end of the hold, and the uid
//	/{prefix}/.types/{type}               exists from the first create of a namespaced type until it is retired
//	/{prefix}/.format                     the format of the stored data
//	/{prefix}/.replicas, .parties         entries of packages replicas and parties
//	/{prefix}/.audit, .inventory          records of package audit
//
// # Files
//
//	registry.go      options and construction
//	format.go        version of the stored data
//	keys.go          storage keys; resource versions and page tokens
//	types.go         resource types and the record of stored types (rule R7)
//	object.go        content objects; how objects are stored and selected
//	namespaces.go    operations on namespaces
//	hold.go          delayed deletion
//	declarations.go  audit records of declarations
//	content.go       operations on content
//	gate.go          the gate and its counterpart, the termination (rules R6, R8)
//	collection.go    deletion of many objects
//	commit.go        transactions, conflicts, unknown outcomes
//	admission.go     the admission chain
//	list.go          listings, decoded or as JSON
//	watch.go         watches of objects and of indexes
//	source.go        content as sources of package deleter
//	errors.go        errors
//
// Any number of registries, in any number of processes, may work on one store.
package registry

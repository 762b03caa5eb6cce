// Package apiserver serves namespaces and their content over HTTP, as Kubernetes
// does (design document, "REST API"), so that kubectl, client-go and controllers
// written for Kubernetes namespaces work against any service that embeds the
// library.
//
// A [Server] is an [net/http.Handler] over a registry and the kinds of content that
// it keeps (package kinds):
//
//	/api/v1/namespaces[/{ns}[/status|/finalize]]             the namespaces
//	/api/v1/namespaces/{ns}/{type}[/{name}[/status]]         content in the core group
//	/apis/{group}/{version}/namespaces/{ns}/{type}/...       content in a named group
//	/api/v1/{type}, /apis/{group}/{version}/{type}           content of all namespaces, or cluster-scoped
//	.../list/{type}, .../watch/...                           the design document's own forms of LIST and WATCH
//	/api, /apis, /version, /openapi/v2, /openapi/v3          discovery and schemas
//	/healthz, /livez, /readyz                                probes; with ?verbose in words
//
// The design document's FINALIZE is POST to the sub-resource; PUT, as Kubernetes has
// it, is the same. Paths are taken as they are: nothing is cleaned or redirected,
// and an escaped slash is part of a name, which no object can have.
//
// Objects are JSON, YAML or, for the kinds that are built into Kubernetes' clients,
// protobuf; lists and objects can be had as a Table or as metadata alone. Patches
// are JSON patches, merge patches, strategic merge patches and server-side apply.
// What goes wrong is answered with a Status, in the words of Kubernetes.
//
// A request passes, in this order, the access log, recovery of panics, the guard against
// other web sites ([Options.Hosts]), authentication ([Options.Authenticate]), the client's
// [Limits], impersonation (the verb impersonate on users and groups) and authorization
// ([Options.Authorizer]). Only then does the server read anything. Admission belongs to the
// registry ([registry.Options]) and is part of the commit; admission plugins find the user
// with [authorization.UserFrom].
//
// A write that puts a namespace on hold, or moves the end of its hold, needs the verb
// delete as well ([declare.HoldAnnotation]). What is on hold, by a grace or otherwise, is
// deleted in the end by package hold: some process must run it on the same registry.
// Waivers and protections need no more than the verb that writes them.
//
// Not served: garbage collection by ownerReferences (the propagation policy of a
// deletion is accepted, and nothing follows from it), watches over WebSocket, CBOR.
package apiserver

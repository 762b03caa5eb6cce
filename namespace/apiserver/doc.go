// Package apiserver serves namespaces and their content over HTTP as Kubernetes does (design
// proposal "Namespaces" of Kubernetes, section "REST API"), so that kubectl, client-go and
// controllers written for Kubernetes namespaces work with any service that embeds the library.
//
// A [Server] is a [net/http.Handler] over a registry and its kinds of content (package kinds):
//
//	/api/v1/namespaces[/{ns}[/status|/finalize]]             the namespaces
//	/api/v1/namespaces/{ns}/{type}[/{name}[/status]]         content in the core group
//	/apis/{group}/{version}/namespaces/{ns}/{type}/...       content in a named group
//	/api/v1/{type}, /apis/{group}/{version}/{type}           content of all namespaces, or cluster-scoped
//	.../list/{type}, .../watch/...                           the design proposal's own forms of LIST and WATCH
//	/api, /apis, /version, /openapi/v2, /openapi/v3          discovery and schemas
//	/healthz, /livez, /readyz                                probes; ?verbose adds details
//
// The design proposal's FINALIZE is POST to the sub-resource; PUT, as in Kubernetes, is
// equivalent. Paths are not cleaned or redirected. An escaped slash is part of a name, which no
// object can have.
//
// Objects are JSON, YAML or, for kinds built into Kubernetes' clients, protobuf. Responses can
// be a Table or contain metadata only. Patches are JSON patches, merge patches, strategic merge
// patches and server-side apply, which reads numbers as int64 or float64. The answer to a
// failed request is a Status in the words of Kubernetes.
//
// A request passes, in this order, the access log, recovery of panics, the guard against other
// websites ([Options.Hosts]), authentication ([Options.Authenticate]), the client's [Limits],
// impersonation (the verb impersonate on users and groups) and authorization
// ([Options.Authorizer]). Only then does the server read from the store. Admission belongs to
// the registry ([registry.Options]) and is part of the commit; admission plugins find the user
// with [authorization.UserFrom].
//
// A write that puts a namespace on hold, or moves the end of its hold, needs the verb delete as
// well ([declare.HoldAnnotation]). At the end of a hold, package hold deletes the namespace: some
// process must run it on the same registry. Waivers and protections only need the verb of the
// write.
//
// Not served: garbage collection by ownerReferences (a propagation policy is accepted and has no
// effect), watches over WebSocket, CBOR.
package apiserver

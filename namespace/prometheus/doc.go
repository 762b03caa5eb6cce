// Package prometheus counts what namespace controllers do, for Prometheus: a
// [Collector] for each party, fed by its hooks.
//
//	collector, err := prometheus.New(party.Finalizer, nil)
//	registerer.MustRegister(collector)
//	c, err := controller.New(namespaces, d, party, &controller.Options{Hooks: collector.Hooks()})
//
// All metrics carry the party's finalizer as the label finalizer:
//
//	namespace_controller_queue_depth                      gauge      namespaces that wait for a worker
//	namespace_controller_work_duration_seconds            histogram  how long passes took
//	namespace_controller_retries_total{reason}            counter    namespaces put back to be looked at again
//	namespace_terminating{stage}                          gauge      terminating namespaces by stage
//	namespace_terminating_oldest_seconds                  gauge      how long the oldest has been terminating; 0: there is none
//	namespace_passes_total{outcome}                       counter    passes by what they came to
//	namespace_objects_deleted_total{resource}             counter    objects deleted, or newly marked as being deleted
//	namespace_sources_failing{resource}                   gauge      namespaces whose last pass the source failed
//	namespace_finalize_conflicts_total                    counter    writes refused because somebody else had written
//	namespace_deletion_duration_seconds                   histogram  from DELETE to removal
//
// No label holds the name of a namespace. Resource types are few in a host that lists
// them and many in one that discovers them: the first [Options.Resources] that have
// something to tell get a label of their own, the rest is "other". What fails beyond the
// resource types is told as the resources "(discovery)", "(parsing)" and "(deleter)".
// Objects are counted as far as the sources count them: a Kubernetes API that deletes a
// whole collection does not say how many objects that were.
//
// Of several replicas that divide the work each tells of the namespaces that are its own,
// so sums over them are right. A replica that stops working and stays, as one that has
// lost a lease, is to call [Collector.Clear].
//
// Beside this package, in the same folder, are a dashboard for Grafana (dashboard.json)
// and alert rules (alerts.yaml).
package prometheus

// Package prometheus counts what namespace controllers do, for Prometheus: a
// [Collector] for each party, fed by its hooks.
//
//	collector, err := prometheus.New(party.Finalizer, nil)
//	registerer.MustRegister(collector)
//	c, err := controller.New(namespaces, d, party, &controller.Options{Hooks: collector.Hooks()})
//
// All metrics carry the party's finalizer as the label finalizer. Beside that:
//
//	namespace_controller_queue_depth            gauge               namespaces that wait for a worker. Stays high: more
//	                                                                workers, or see why passes are slow
//	namespace_controller_work_duration_seconds  histogram           how long passes took. Grows: a slow source, or large
//	                                                                namespaces
//	namespace_controller_retries_total          counter   reason    namespaces put back to be looked at again. Grows by
//	                                                                "failed": see the sources; by "remaining": something
//	                                                                holds objects
//	namespace_terminating                       gauge     stage     terminating namespaces
//	namespace_terminating_oldest_seconds        gauge     stage     for how long the oldest has been terminating; 0: there
//	                                                                is none. Above what you promise: explain the oldest
//	namespace_passes_total                      counter   outcome   passes by what they came to. Most are "failed" and no
//	                                                                source is failing: see the controller's log
//	namespace_objects_deleted_total             counter   resource  objects deleted, or newly marked as being deleted
//	namespace_sources_failing                   gauge     resource  namespaces whose last pass the source failed
//	namespace_sources_failing_seconds           gauge     resource  for how long it has failed one of them without a
//	                                                                break, at most; 0: it fails none. Above minutes: mend
//	                                                                the source, or waive it if it is gone for good
//	namespace_finalize_conflicts_total          counter             writes refused because somebody else had written. More
//	                                                                than passes: find who writes in a loop
//	namespace_deletion_duration_seconds         histogram           from DELETE to removal, of what the party held: what
//	                                                                users wait
//
// The stage is the one that the party has come to. DeletingContent: it holds the
// namespace. WaitingForFinalizers: it has let go, others have not, whatever those do.
// ReadyToRemove: nobody holds it any more. A namespace that the party did not hold when
// this process first looked is none of its business: after a restart, those that wait for
// others are told of no more.
//
// A gauge that is 0 may mean that nothing is terminating, or that the controller hears of
// nothing: a standby, or one whose watch fails. Export beside it whether the process leads
// and whether its watch is in order, and alert on the absence of one that does and has, as
// deleter/kubernetes/agent can with nslifecycle_leader and nslifecycle_watching.
//
// No label holds the name of a namespace. Resource types are few in a host that lists
// them and many in one that discovers them: the first [Options.Resources] that have
// something to tell get a label of their own, the rest is "other". What fails beyond the
// resource types is told as the resources "(discovery)", "(parsing)" and "(deleter)".
// Objects are counted as far as the sources count them: a Kubernetes API that deletes a
// whole collection does not say how many objects that were.
//
// Of several replicas that divide the work each tells of the namespaces that are its own,
// so sums over them are right; while the work changes hands, one may be missing until its
// next pass, or be told of twice. A replica that stops working and stays, as one that has
// lost a lease, is to call [Collector.Clear]. Controllers of one party in one process share
// a collector, as a registry takes only one of each party ([Collector.Hooks]).
//
// Beside this package, in the same folder, are a dashboard for Grafana (dashboard.json)
// and alert rules (alerts.yaml).
package prometheus

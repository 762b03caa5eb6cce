// Package prometheus exports metrics of namespace controllers to Prometheus. Each party has
// a [Collector], fed by the hooks of its controllers.
//
//	collector, err := prometheus.New(party.Finalizer, nil)
//	registerer.MustRegister(collector)
//	c, err := controller.New(namespaces, d, party, &controller.Options{Hooks: []controller.Hooks{collector.Hooks()}})
//
// All metrics have the label finalizer, the party's finalizer. The metrics, with their other
// labels and how to read them:
//
//	namespace_controller_queue_depth            gauge               namespaces that wait for a worker. High for long: add
//	                                                                workers, or find out why passes are slow
//	namespace_controller_work_duration_seconds  histogram           duration of passes. Growing: a slow source, or large
//	                                                                namespaces
//	namespace_controller_retries_total          counter   reason    scheduled retries. Growing by "failed": check the sources;
//	                                                                by "remaining": finalizers hold objects
//	namespace_terminating                       gauge     stage     terminating namespaces
//	namespace_terminating_oldest_seconds        gauge     stage     time since the deletion of the oldest one; 0: there is
//	                                                                none. Above your objective: explain that namespace
//	namespace_passes_total                      counter   outcome   passes by outcome. Mostly "failed" although no source
//	                                                                fails: read the controller's log
//	namespace_objects_deleted_total             counter   resource  objects deleted, or newly marked for deletion
//	namespace_sources_failing                   gauge     resource  namespaces in whose last pass the source failed
//	namespace_sources_failing_seconds           gauge     resource  longest time for which it has failed one namespace in
//	                                                                every pass; 0: it fails none. Above minutes: fix the
//	                                                                source, or waive it if it is gone for good
//	namespace_finalize_conflicts_total          counter             writes rejected because another writer was faster. More
//	                                                                than passes: find the client that writes in a loop
//	namespace_deletion_duration_seconds         histogram           time from DELETE to removal, of namespaces that the
//	                                                                party held: how long users wait
//
// The stage is the party's view. DeletingContent: its finalizer is still set.
// WaitingForFinalizers: it has finished, other parties have not. ReadyToRemove: no finalizer
// is left. A namespace whose finalizer the party had removed before this process started is
// not counted, so namespaces that wait for other parties drop out after a restart.
//
// A gauge of 0 means that nothing is terminating, or that the controller observes nothing:
// it is a standby, or its watch fails. Export whether the process leads and whether its watch
// works, as deleter/kubernetes/agent does with nslifecycle_leader and nslifecycle_watching,
// and alert if no process does both.
//
// No label contains the name of a namespace. A host that discovers resource types may have
// many of them: the first [Options.Resources] with something to report get their own label,
// all others share "other". Failures beyond the resource types have the resources
// "(discovery)", "(parsing)" and "(deleter)". Objects are counted as far as their sources
// count them: a Kubernetes API that deletes a collection does not report a number.
//
// If replicas divide the work, each reports its own namespaces, so sums are right. While work
// moves between replicas, a namespace may be missing until its next pass, or be counted twice.
// A replica that stops working but keeps running, for example after losing a lease, must call
// [Collector.Clear]. Controllers of one party in one process share a collector, because a
// registry accepts only one for each party ([Collector.Hooks]).
//
// The folder of this package also contains a dashboard for Grafana (dashboard.json) and alert
// rules (alerts.yaml).
package prometheus

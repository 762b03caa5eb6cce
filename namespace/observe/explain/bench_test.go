package explain_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
	"github.com/nslifecycle/nslifecycle/namespace/observe/explain"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
	"github.com/nslifecycle/nslifecycle/phase"
)

// stuck is the report of a namespace with some content that is held and a source that
// fails.
func stuck() pass.Result {
	report := deleter.Report{}
	for _, name := range []string{"configmaps", "pods", "secrets", "services"} {
		report.Results = append(report.Results, deleter.Result{
			Resource: namespace.ResourceType{Name: name}, Remaining: 3, Deleting: 3, Sample: []string{name + "-a", name + "-b", name + "-c"},
			Holders: []phase.Holder{{Finalizer: "example.com/drain", Objects: 3, Sample: []string{name + "-a", name + "-b", name + "-c"}}},
		})
	}
	return pass.Result{Outcome: pass.Waiting, Report: report}
}

func sick() (pass.Result, error) {
	result := stuck()
	err := &deleter.SourceError{Resource: widgets, Op: deleter.OpList, Err: errors.New("conversion webhook failed: connection refused")}
	result.Outcome = pass.Failed
	result.Report.Results = append(result.Report.Results, deleter.Result{Resource: widgets, Err: err})
	return result, fmt.Errorf("pass for namespace %q: %w", "shop", err)
}

// BenchmarkHooks measures the cost of a recorder for one pass.
func BenchmarkHooks(b *testing.B) {
	waiting := stuck()
	failed, err := sick()
	for _, c := range []struct {
		name string
		tell func(h controller.Hooks)
	}{
		{"queued", func(h controller.Hooks) { h.Queued(shop) }},
		{"started", func(h controller.Hooks) { h.PassStarted(context.Background(), shop) }},
		{"retried", func(h controller.Hooks) { h.Retried(shop, time.Second, controller.ReasonFailed) }},
		{"ended empty", func(h controller.Hooks) {
			h.PassEnded(context.Background(), shop, pass.Result{Outcome: pass.Removed}, nil, time.Second)
		}},
		{"ended held", func(h controller.Hooks) { h.PassEnded(context.Background(), shop, waiting, nil, time.Second) }},
		{"ended failed", func(h controller.Hooks) { h.PassEnded(context.Background(), shop, failed, err, time.Second) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := explain.NewRecorder().Hooks("")
			b.ReportAllocs()
			for b.Loop() {
				c.tell(h)
			}
		})
	}
}

// BenchmarkMemory measures a recorder's memory for each terminating and each removed namespace.
func BenchmarkMemory(b *testing.B) {
	healthy := pass.Result{Outcome: pass.Waiting, Report: deleter.Report{Results: []deleter.Result{{Resource: pods, Deleted: 3, Remaining: 3, Deleting: 3}}}}
	failed, err := sick()
	for _, c := range []struct {
		name   string
		passes int
		result pass.Result
		err    error
		ended  bool
	}{
		{"one pass", 1, healthy, nil, false},
		{"stuck for long", 40, failed, err, false},
		{"removed", 2, healthy, nil, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			const n = 5000
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				r := explain.NewBoundedRecorder(0, 0, n)
				h := r.Hooks("")
				for i := range n {
					ref := namespace.Ref{Name: fmt.Sprintf("namespace-%d", i), UID: fmt.Sprintf("ce444e84-8ce8-4d63-b1dd-%012d", i)}
					for range c.passes {
						h.PassEnded(context.Background(), ref, c.result, c.err, time.Millisecond)
					}
					if c.ended {
						h.Removed(ref)
					}
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/namespace")
				runtime.KeepAlive(r)
			}
		})
	}
}

// BenchmarkHostileMemory measures a namespace with the longest and most names and errors.
func BenchmarkHostileMemory(b *testing.B) {
	long := func(parts ...any) string { return fmt.Sprint(parts...) + strings.Repeat("x", 600) }
	worst := func(n, pass int) (report deleter.Report) {
		for i := range 64 {
			result := deleter.Result{Resource: namespace.ResourceType{Name: long(n, i)}, Remaining: 16, Err: errors.New(long(n, i, pass))}
			for j := range 16 {
				holder := phase.Holder{Finalizer: long(n, i, j), Objects: 1}
				for s := range 5 {
					holder.Sample = append(holder.Sample, long(n, i, j, s, pass))
				}
				result.Holders = append(result.Holders, holder)
			}
			report.Results = append(report.Results, result)
		}
		return report
	}
	const namespaces = 10
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := explain.NewRecorder()
		h := r.Hooks("")
		for n := range namespaces {
			for p := range 33 {
				report := worst(n, p)
				h.PassEnded(context.Background(), namespace.Ref{Name: fmt.Sprint(n), UID: "u"}, pass.Result{Outcome: pass.Failed, Report: report}, errors.New(long(p)), time.Second)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/namespaces, "bytes/namespace")
		runtime.KeepAlive(r)
	}
}

func BenchmarkExplain(b *testing.B) {
	r := explain.NewRecorder()
	failed, err := sick()
	h := r.Hooks("")
	for range 40 {
		h.PassEnded(context.Background(), shop, failed, err, time.Millisecond)
	}
	in := explain.Input{Namespace: with(dying("kubernetes", origin), "", held), Now: now, History: r.History("shop", "u-1")}
	d := explain.Explain(in)
	b.Run("history", func(b *testing.B) {
		for b.Loop() {
			_ = r.History("shop", "u-1")
		}
	})
	b.Run("explain", func(b *testing.B) {
		for b.Loop() {
			_ = explain.Explain(in)
		}
	})
	b.Run("text", func(b *testing.B) {
		for b.Loop() {
			_ = d.Text()
		}
	})
}

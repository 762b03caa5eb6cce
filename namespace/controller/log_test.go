package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/deleter/contenttest"
	"github.com/nslifecycle/nslifecycle/namespace/controller"
)

// clockedLog returns a logger whose lines begin with the elapsed time, truncated to minutes.
func clockedLog() (*slog.Logger, *journal) {
	began, lines := time.Now(), new(journal)
	return slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.String("after", a.Value.Time().Sub(began).Truncate(time.Minute).String())
		case "uid":
			return slog.Attr{}
		}
		return a
	}})), lines
}

// day is a stuck namespace with controls for the test.
type day struct {
	*world
	t       *testing.T
	name    string
	failing []*atomic.Bool // by type of content
	diary   *diary
	log     *journal
	release func() // releases all objects
}

// newDay returns a namespace with content of three types. A finalizer holds one object of
// each type.
func newDay(t *testing.T) *day {
	d := &day{t: t, name: "a", diary: newDiary(), failing: []*atomic.Bool{new(atomic.Bool), new(atomic.Bool), new(atomic.Bool)}}
	d.world = newWorld(t, len(d.failing), func(i int) contenttest.FakeOptions {
		return contenttest.FakeOptions{Fault: func(_ context.Context, call contenttest.Call) error {
			if d.failing[i].Load() && call.Op == deleter.OpList {
				return errors.New("connection refused")
			}
			return nil
		}}
	})
	target := d.create(t, d.name)
	d.fakes[0].Put(target, contenttest.Object{Name: "held", Finalizers: []string{"example.com/f"}})
	for i, fake := range d.fakes[1:] { // held objects make each pass ask these sources too
		fake.Put(target, contenttest.Object{Name: fmt.Sprint("held-", i), Finalizers: []string{"example.com/f"}})
	}
	d.release = func() {
		d.fakes[0].Release(target, "held")
		for i, fake := range d.fakes[1:] {
			fake.Release(target, fmt.Sprint("held-", i))
		}
	}
	return d
}

// begin starts a controller and deletes the namespace.
func (d *day) begin() {
	logger, lines := clockedLog()
	d.log = lines
	run(d.t, d.host, d.deleter, kubernetes, controller.Options{Hooks: d.diary.hooks(), Logger: logger})
	d.delete(d.t, d.name)
	synctest.Wait()
}

// lasts lets time pass while the namespace is stuck, and requires many passes.
func (d *day) lasts(hours int) {
	before := len(d.diary.of("ended", d.name))
	time.Sleep(time.Duration(hours) * time.Hour)
	synctest.Wait()
	require.Greater(d.t, len(d.diary.of("ended", d.name))-before, hours*60*3/4, "it was not looked at again")
}

// logged requires that the log has exactly these lines.
func (d *day) logged(want ...string) {
	d.t.Helper()
	synctest.Wait()
	got := strings.Split(strings.TrimSuffix(d.log.String(), "\n"), "\n")
	require.Empty(d.t, cmp.Diff(want, got))
}

const (
	logTerminating = `level=INFO msg="namespace is terminating" namespace=a`
	logLeft        = `level=INFO msg="namespace has content left" namespace=a remaining=3`
	logRemoved     = `level=INFO msg="namespace removed" namespace=a`
)

// logFailed returns the log line of a pass in which the given types failed.
func logFailed(remaining int, types ...int) string {
	var causes []string
	for _, i := range types {
		causes = append(causes, resource(i).String()+": list: connection refused")
	}
	return fmt.Sprintf(`level=WARN msg="namespace could not be emptied; it will be retried" namespace=a remaining=%d err="pass for namespace \"a\": %s"`,
		remaining, strings.Join(causes, "; "))
}

// A namespace that is stuck for a day costs two log lines: its termination and the reason
// why it stays.
func TestR10_LogOfObjectHeldForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t)
		d.begin()
		d.lasts(24)
		d.logged("after=0s "+logTerminating, "after=0s "+logLeft)
		d.release()
		d.logged("after=0s "+logTerminating, "after=0s "+logLeft, "after=24h0m0s "+logRemoved)
	})
}

func TestR10_LogOfSourceFailingForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t)
		d.failing[1].Store(true)
		d.begin()
		d.lasts(24)
		d.logged("after=0s "+logTerminating, "after=0s "+logFailed(2, 1))
	})
}

// Each failure, recovery and changed failure of a source costs one log line.
func TestR10_LogOfSourcesComingAndGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t)
		want := []string{"after=0s " + logTerminating}
		change := func(at, line string, failing ...int) {
			t.Helper()
			for i, f := range d.failing {
				f.Store(false)
				for _, j := range failing {
					f.Store(f.Load() || i == j)
				}
			}
			if d.log == nil {
				d.begin()
			}
			d.lasts(4)
			want = append(want, "after="+at+" "+line)
			got := strings.Split(strings.TrimSpace(d.log.String()), "\n")
			require.Len(t, got, len(want), d.log.String())
			// The next pass, within a minute, notices the change.
			require.Empty(t, cmp.Diff(want[len(want)-1], got[len(got)-1]))
		}
		change("0s", logFailed(2, 1), 1)
		change("4h0m0s", logLeft)
		change("8h0m0s", logFailed(2, 1), 1)
		change("12h0m0s", logFailed(1, 1, 2), 1, 2)
		change("16h0m0s", logFailed(2, 2), 2)
		change("20h0m0s", logLeft)
	})
}

// If another party holds a finalized namespace for a day, the log has one more line.
func TestR10_LogOfAnotherPartyForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t)
		d.setFinalizers(t, d.name, kubernetes.Finalizer, origin.Finalizer)
		d.release()
		d.begin()
		time.Sleep(24 * time.Hour)
		want := []string{"after=0s " + logTerminating, `after=0s level=INFO msg="namespace finalized; other finalizers keep it" namespace=a remaining=0`}
		d.logged(want...)
		d.setFinalizers(t, d.name)
		d.logged(append(want, "after=24h0m0s "+logRemoved)...)
	})
}

// Each stuck namespace has its own log lines.
func TestR10_LogIsPerNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 3
		w := newWorld(t, 1, func(int) contenttest.FakeOptions {
			return contenttest.FakeOptions{Fault: func(context.Context, contenttest.Call) error { return errors.New("connection refused") }}
		})
		logger, lines := clockedLog()
		diary := newDiary()
		run(t, w.host, w.deleter, kubernetes, controller.Options{Hooks: diary.hooks(), Logger: logger})
		for _, name := range names("tenant", many) {
			w.create(t, name)
			w.delete(t, name)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Greater(t, len(diary.of("ended", "")), many*24*60*3/4)
		require.Equal(t, 2*many, strings.Count(lines.String(), "\n"))
		for _, name := range names("tenant", many) {
			require.Equal(t, 1, strings.Count(lines.String(), "terminating\" namespace="+name+"\n"), name)
			require.Equal(t, 1, strings.Count(lines.String(), "retried\" namespace="+name+" "), name)
		}
	})
}

// Failures of discovery, of parsing and of the pass itself are logged when they change, like
// failures of sources.
func TestR10_LogOfWhatFailsBesideSources(t *testing.T) {
	group := func(name string) error { return deleter.GroupError{Group: name, Err: errors.New("down")} }
	reports := []struct {
		report deleter.Report
		err    string // empty: no new log line
	}{
		{deleter.Report{Discovery: []error{group("a.example.com")}}, "a.example.com: down"},
		{deleter.Report{Discovery: []error{deleter.GroupError{Group: "a.example.com", Err: errors.New("still down")}}}, ""},
		{deleter.Report{Discovery: []error{group("b.example.com")}}, "b.example.com: down"},
		{deleter.Report{Discovery: []error{group("b.example.com"), group("c.example.com")}}, "b.example.com: down; c.example.com: down"},
		{deleter.Report{Discovery: []error{errors.Join(group("b.example.com"), group("c.example.com"))}}, ""},
		{deleter.Report{Discovery: []error{errors.Join(group("b.example.com"), group("d.example.com"))}}, "b.example.com: down\\nd.example.com: down"},
		{deleter.Report{Discovery: []error{errors.New("all is down")}}, "all is down"},
		{deleter.Report{Parsing: []error{errors.New("odd")}}, "odd"},
		{deleter.Report{Failed: errors.New("broken")}, "broken"},
		{deleter.Report{Failed: errors.New("broken still")}, ""},
		{deleter.Report{Parsing: []error{errors.New("odd")}, Failed: errors.New("broken")}, "odd; broken"},
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		logger, lines := clockedLog()
		var at atomic.Int32
		d := reporter(func(target deleter.Target) deleter.Report {
			report := reports[at.Load()].report
			report.UID = target.UID
			return report
		})
		run(t, w.host, d, kubernetes, controller.Options{Logger: logger})
		w.create(t, "a")
		w.delete(t, "a")
		want := []string{logTerminating}
		for i, r := range reports {
			at.Store(int32(i))
			time.Sleep(4 * time.Hour)
			if r.err != "" {
				want = append(want, `level=WARN msg="namespace could not be emptied; it will be retried" namespace=a remaining=0 err="pass for namespace \"a\": `+r.err+`"`)
			}
			require.Empty(t, cmp.Diff(want, untimed(lines)))
		}
	})
}

// reporter is a deleter that returns given reports.
type reporter func(deleter.Target) deleter.Report

func (f reporter) Delete(_ context.Context, target deleter.Target, _ deleter.Report) (deleter.Report, error) {
	report := f(target)
	return report, report.Err()
}

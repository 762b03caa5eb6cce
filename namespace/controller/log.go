package controller

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"log/slog"
	"slices"
	"strconv"

	"github.com/nslifecycle/nslifecycle/deleter"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/pass"
)

// write writes a line to the log. It survives a logger that panics.
func (o *observer) write(level slog.Level, message string, attrs ...slog.Attr) {
	defer func() { _ = recover() }() // there is no other place to report it
	o.log.LogAttrs(context.Background(), level, message, attrs...)
}

// logRemoved logs and reports the removal of a namespace of this controller. Waived lists
// the sources whose failures were waived by the pass that removed it.
func (o *observer) logRemoved(ref namespace.Ref, waived []string) {
	attrs := []slog.Attr{slog.String("namespace", ref.Name), slog.String("uid", ref.UID)}
	if len(waived) > 0 {
		attrs = append(attrs, slog.Any("waived", waived))
	}
	o.write(slog.LevelInfo, "namespace removed", attrs...)
	o.removed(ref)
}

// logEnded logs the result of a pass, if it differs from the result that was logged last.
func (o *observer) logEnded(e *entry, end ending) {
	const finalized = "namespace finalized; other finalizers keep it"
	level, message := slog.LevelInfo, ""
	switch end.result.Outcome {
	case pass.Interrupted:
		return
	case pass.Waiting:
		message = "namespace has content left"
	case pass.Failed:
		level, message = slog.LevelWarn, "namespace could not be emptied; it will be retried"
	case pass.Finalized:
		message = finalized
	case pass.NoFinalizer:
		message = "only other finalizers keep the namespace"
	default:
		message = "the watch reports that the namespace is terminating, but a read found it " + end.result.Outcome.String() + "; it will be retried"
	}
	state := message
	if end.result.Outcome == pass.NoFinalizer {
		state = finalized // a resync repeats the pass of a finalized namespace
	}
	waived := waivedSources(end.result.Report)
	sum := digest(state, end.result.Report, waived)
	if sum == e.logged {
		return
	}
	e.logged = sum
	attrs := []slog.Attr{
		slog.String("namespace", e.ref.Name), slog.String("uid", e.ref.UID), slog.Int("remaining", end.result.Report.Remaining()),
	}
	if len(waived) > 0 {
		attrs = append(attrs, slog.Any("waived", waived))
	}
	if end.err != nil {
		attrs = append(attrs, slog.Any("err", end.err))
	}
	o.write(level, message, attrs...)
}

// digest is a hash of the part of a result whose change is worth a line: which sources
// fail, but neither how nor how many objects are left.
func digest(state string, r deleter.Report, waived []string) uint64 {
	h := fnv.New64a()
	mark := func(mark, text string) {
		io.WriteString(h, mark)
		io.WriteString(h, text)
	}
	mark("", state)
	for f := range r.Failures() {
		for _, source := range f.Sources() {
			mark("\x00", strconv.Itoa(int(f.Kind)))
			mark("\x01", source)
		}
		if unwaived := (*deleter.UnwaivedError)(nil); errors.As(f.Err, &unwaived) {
			mark("\x02", "")
		}
	}
	for _, source := range waived {
		mark("\x03", source)
	}
	return h.Sum64()
}

// waivedSources returns the names of the sources whose failures a pass waived.
func waivedSources(r deleter.Report) []string {
	var sources []string
	for _, err := range r.Waived {
		sources = append(sources, deleter.SourceOf(err))
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/finalizer"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

var remedyWait = Remedy{Text: "Wait; it goes on by itself."}

var remedyUnattended = Remedy{Text: "Start the controller of its finalizers, or see why it does not get to this one (its log, its replicas, its queue)."}

// remedyFailure is what to do about a source that fails.
func (b *builder) remedyFailure(kind Kind, f Failure) Remedy {
	source, text := f.Source, f.Text
	waiver, template := "", ""
	switch {
	case f.Unwaived > 0:
		waiver = " Only its answer can tell; no waiver stands in for that."
	case resource(source):
		waiver, template = " If it holds nothing of this namespace, a waiver lets the deletion go on.", b.waive(source)
	}
	switch kind {
	case DiscoveryFailed:
		r := Remedy{Text: "Bring the API that serves it back, or remove its registration." + waiver, Command: b.kubectl("get", "apiservices"), Template: template}
		if strings.HasPrefix(source, sourceDiscovery) {
			r.Text = "See why resource types cannot be discovered."
		} else if source == coreGroup {
			r.Command = b.kubectl("api-resources", "--namespaced")
		} else if resource(source) {
			r.Command = b.kubectl("api-resources", groupOption+source)
		}
		return r
	case Undeclared:
		if b.left(source) != "" {
			waiver, template = "", ""
		}
		return Remedy{
			Text: "Run a controller of the version that declares it. If the service has dropped the type, have the last version that declares it delete the rest, " +
				"then retire it (Registry.RetireType)." + waiver,
			Template: template,
		}
	case ParsingFailed:
		return Remedy{Text: "Correct the group and version under which it is registered.", Command: b.kubectl("api-resources", "--namespaced")}
	case Conflicts:
		return Remedy{
			Text:    "Find out who else writes the namespace all the time, and stop it.",
			Command: b.kubectl("get", "namespace", b.d.Name, "-o", "yaml", "--show-managed-fields"),
		}
	case StorageFailed:
		return Remedy{Text: "Bring the place where namespaces are kept back; it will be tried again by itself.", Command: b.kubectl("get", "namespace", b.d.Name)}
	case Returning:
		return b.remedyReturning(source)
	case SourceSlow:
		return Remedy{
			Text:    "See why it is slow; it will be asked again, with more patience each time." + waiver,
			Command: b.get(source), Template: template,
		}
	}
	if strings.Contains(text, "forbidden") && resource(source) {
		return Remedy{
			Text:    "Let the controller list and delete it (run this as the controller); it will be tried again by itself.",
			Command: b.kubectl("auth", "can-i", "delete", source, "-n", b.d.Name),
		}
	}
	return Remedy{Text: "See why it fails and mend that; it will be tried again by itself." + waiver, Command: b.get(source), Template: template}
}

// waive is the command that waives failures of a resource type or group. Its
// placeholders are redirections, so that a shell does not run it as it is.
func (b *builder) waive(source string) string {
	begin := b.kubectl("annotate", "namespace", b.d.Name)
	if begin == "" {
		return ""
	}
	return fmt.Sprintf(`%s %s<NAME>='{"source":"%s","by":"<WHO>","reason":"<WHY>","until":"<YYYY-MM-DDThh:mm:ssZ>"}'`,
		begin, declare.WaiverPrefix, source)
}

// drop is the call that drops a finalizer by force.
func (b *builder) drop(f finalizer.Name) string {
	return fmt.Sprintf("force.Drop(ctx, namespaces, content, log, force.Request{Name: %q, UID: %q, Finalizers: []finalizer.Name{%q}, By: <WHO>, Reason: <WHY>})",
		b.d.Name, b.d.UID, f)
}

// get is the command that lists a resource type; empty if source is none.
func (b *builder) get(source string) string {
	if !resource(source) {
		return ""
	}
	return b.kubectl("get", source, "-n", b.d.Name)
}

// resource reports whether source looks like a resource type or a group.
func resource(source string) bool {
	if source == "" || strings.HasPrefix(source, "-") || source == sourceDiscovery || source == sourceParsing {
		return false
	}
	return !strings.ContainsFunc(source, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-')
	})
}

func (b *builder) remedyReturning(source string) Remedy {
	return Remedy{
		Text:    "Stop whatever creates it (a creator that does not ask the gate, or an object that is not deleted when asked).",
		Command: b.get(source),
	}
}

// remedyHeld is what to do about a finalizer that holds objects of a type.
func (b *builder) remedyHeld(f, source string) Remedy {
	r := Remedy{Text: fmt.Sprintf("See that the owner of %s runs and does its work; if it is gone for good, take the finalizer off these objects.", f)}
	if resource(source) {
		r.Command = b.kubectl("get", source, "-n", b.d.Name, "-o", "custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers")
	}
	return r
}

// remedyOwner is what to do about a finalizer of the namespace.
func (b *builder) remedyOwner(h Holder) Remedy {
	if h.Known && h.Alive {
		return Remedy{Text: "Wait, or ask its owner" + contact(h.Contact) + "; its log says what it waits for."}
	}
	r := Remedy{
		Text:    "Start its owner again. If that is gone for good, drop the finalizer on the record (force.Drop).",
		Command: b.kubectl("get", "namespace", b.d.Name, "-o", "jsonpath={.spec.finalizers}"), Template: b.drop(h.Finalizer),
	}
	if h.Object {
		r.Template = ""
		r.Text = "Start its owner again. If that is gone for good, take the finalizer off with an update."
		r.Command = b.kubectl("get", "namespace", b.d.Name, "-o", "jsonpath={.metadata.finalizers}")
	}
	return r
}

// remedyRemovable is what to do about a namespace that nothing holds.
func (b *builder) remedyRemovable() Remedy {
	return Remedy{
		Text:    "Send its finalize once more (PUT finalize with no finalizers): the write removes it.",
		Command: b.kubectl("get", "namespace", b.d.Name, "-o", "jsonpath={.metadata.finalizers}{.spec.finalizers}"),
	}
}

// inventory sums up an inventory by type.
func inventory(left *audit.Inventory) string {
	var types []Objects
	for _, o := range left.Objects {
		at := slices.IndexFunc(types, func(t Objects) bool { return t.Resource == o.Resource })
		if at < 0 {
			at = len(types)
			types = append(types, Objects{Resource: o.Resource})
		}
		types[at].Remaining++
		if len(types[at].Sample) < maxSample {
			types[at].Sample = append(types[at].Sample, o.Name)
		}
	}
	text := amounts(types, time.Time{})
	if len(types) == 0 {
		text = "nothing"
	}
	if n := len(left.Failures); n > 0 {
		text += fmt.Sprintf(" (and what %s did not tell)", plural(n, "source", "sources"))
	}
	return text
}

// options are those that commands have. Any other word that begins like one comes from
// outside.
var options = []string{"-n", "-o", "--namespaced", "--show-managed-fields"}

const groupOption = "--api-group="

// kubectl returns a command for a POSIX shell; empty if an argument has characters that
// no command should be pasted with, or is an option that is not among ours.
func (b *builder) kubectl(args ...string) string {
	words := []string{"kubectl"}
	if strings.HasPrefix(b.d.Name, "-") {
		return ""
	}
	for _, a := range args {
		ours := slices.Contains(options, a) || strings.HasPrefix(a, groupOption)
		if !printable(a) || strings.HasPrefix(a, "-") && !ours {
			return ""
		}
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

func printable(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r)) })
}

// quote quotes s for a POSIX shell, if that is needed.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:=,@+", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

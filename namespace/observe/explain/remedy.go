package explain

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace/declare"
	"github.com/nslifecycle/nslifecycle/namespace/internal/show"
	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
)

var remedyWait = Remedy{Text: "Wait; the deletion proceeds by itself."}

// remedyFailure returns the remedy for a failure.
func (f *facts) remedyFailure(g Failure) Remedy {
	waiver, template := "", ""
	switch {
	case g.Unwaived > 0:
		waiver = " No waiver helps: only the source knows whether its objects are gone."
	case isResource(g.Source) && (g.Kind != Undeclared || f.left(g.Source) == ""):
		waiver, template = " If it holds no content of this namespace, a waiver lets the deletion continue.", f.waive(g.Source)
	}
	switch g.Kind {
	case DiscoveryFailed:
		r := Remedy{Text: "Restore the API that serves it, or remove its registration." + waiver, Command: f.kubectl("get", "apiservices"), Template: template}
		switch {
		case strings.HasPrefix(g.Source, sourceDiscovery):
			r.Text = "Find out why resource types cannot be discovered, and fix it."
		case g.Source == coreGroup:
			r.Command = f.kubectl("api-resources", "--namespaced")
		case isResource(g.Source):
			r.Command = f.kubectl("api-resources", groupOption+g.Source)
		}
		return r
	case Undeclared:
		return Remedy{
			Text: "Run a controller of the version that declares it. If the service has dropped the type, let the last version that declares it delete " +
				"the remaining objects, then retire the type (Registry.RetireType)." + waiver,
			Template: template,
		}
	case ParsingFailed:
		return Remedy{Text: "Correct the group and version of its registration.", Command: f.kubectl("api-resources", "--namespaced")}
	case Conflicts:
		return Remedy{
			Text:    "Find the client that keeps writing the namespace, and stop it.",
			Command: f.kubectl("get", "namespace", f.name, "-o", "yaml", "--show-managed-fields"),
		}
	case StorageFailed:
		return Remedy{Text: "Restore the storage of namespaces; the pass is retried automatically.", Command: f.kubectl("get", "namespace", f.name)}
	case Returning:
		return f.remedyReturning(g.Source)
	case SourceSlow:
		return Remedy{Text: "Find out why it is slow; it is retried automatically, with a longer timeout each time." + waiver, Command: f.get(g.Source), Template: template}
	}
	if strings.Contains(g.Text, "forbidden") && isResource(g.Source) {
		return Remedy{
			Text:    "Permit the controller to list and delete it (run this as the controller); it is retried automatically.",
			Command: f.kubectl("auth", "can-i", "delete", g.Source, "-n", f.name),
		}
	}
	return Remedy{Text: "Find the cause and fix it; it is retried automatically." + waiver, Command: f.get(g.Source), Template: template}
}

func (f *facts) remedyReturning(resource string) Remedy {
	return Remedy{
		Text:    "Stop what creates them: a writer that does not check the gate, or objects that ignore their deletion.",
		Command: f.get(resource),
	}
}

func (f *facts) remedyHeld(b blocker) Remedy {
	r := Remedy{Text: fmt.Sprintf("Check that the owner of %s is running. If it is gone for good, remove the finalizer from these objects.", b.finalizer)}
	if isResource(b.resource) {
		r.Command = f.kubectl("get", b.resource, "-n", f.name, "-o", "custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers")
	}
	return r
}

// remedyOwner returns the remedy for a finalizer of the namespace.
func (f *facts) remedyOwner(h Holder) Remedy {
	switch {
	case h.Known && h.Alive:
		return Remedy{Text: "Wait, or ask its owner" + contact(h.Contact) + "; the owner's log says what it waits for."}
	case h.Object:
		return Remedy{
			Text:    "Restart its owner. If the owner is gone for good, remove the finalizer with an update.",
			Command: f.kubectl("get", "namespace", f.name, "-o", "jsonpath={.metadata.finalizers}"),
		}
	}
	return Remedy{
		Text:    "Restart its owner. If the owner is gone for good, drop the finalizer on the record (force.Drop).",
		Command: f.kubectl("get", "namespace", f.name, "-o", "jsonpath={.spec.finalizers}"),
		Template: fmt.Sprintf("force.Drop(ctx, namespaces, content, log, force.Request{Name: %q, UID: %q, Finalizers: []finalizer.Name{%q}, By: <WHO>, Reason: <WHY>})",
			f.name, f.uid, h.Finalizer),
	}
}

// remedy returns the remedy for the objects that a forced drop left.
func remedyForced(d audit.Drop) Remedy {
	objects, unanswered := d.Left()
	again := ""
	if d.Forced == nil {
		again = "Call force.Drop again with the same request, which records its outcome. "
	}
	switch {
	case d.Forcing == nil && objects+unanswered > 0:
		return Remedy{Text: fmt.Sprintf("Record %s of the objects left then is lost or unreadable, so no sweep can use it: look for content under this name, and remove it.", d.ID())}
	case objects > 0:
		return Remedy{Text: fmt.Sprintf("%sRemove the objects left then: force.Sweep with record %s.", again, d.ID())}
	case unanswered > 0:
		return Remedy{Text: fmt.Sprintf("%s%s did not answer then, so no sweep knows their objects: check them, and remove what is left.", again, show.Count(unanswered, "source"))}
	case again != "":
		return Remedy{Text: strings.TrimSpace(again)}
	}
	return Remedy{Text: "There is nothing more to do for it."}
}

// waive returns the command that waives failures of a resource type or group.
func (f *facts) waive(source string) string {
	begin := f.kubectl("annotate", "namespace", f.name)
	if begin == "" {
		return ""
	}
	return fmt.Sprintf(`%s %s<NAME>='{"source":"%s","by":"<WHO>","reason":"<WHY>","until":"<YYYY-MM-DDThh:mm:ssZ>"}'`,
		begin, declare.WaiverPrefix, source)
}

// get returns the command that lists a resource type; empty if source is none.
func (f *facts) get(source string) string {
	if !isResource(source) {
		return ""
	}
	return f.kubectl("get", source, "-n", f.name)
}

// ownOptions are the options in commands. Other words that begin like one come from outside.
var ownOptions = []string{"-n", "-o", "--namespaced", "--show-managed-fields"}

const groupOption = "--api-group="

// kubectl returns a command for a POSIX shell. It returns none if an argument is an option
// that is not ours, or contains characters that no command should be pasted with.
func (f *facts) kubectl(args ...string) string {
	if strings.HasPrefix(f.name, "-") {
		return ""
	}
	words := []string{"kubectl"}
	for _, a := range args {
		ours := slices.Contains(ownOptions, a) || strings.HasPrefix(a, groupOption)
		if !pastable(a) || strings.HasPrefix(a, "-") && !ours {
			return ""
		}
		words = append(words, quote(a))
	}
	return strings.Join(words, " ")
}

func pastable(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != ' ' && (!unicode.IsGraphic(r) || unicode.IsSpace(r)) })
}

// quote quotes s for a POSIX shell if necessary.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:=,@+", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

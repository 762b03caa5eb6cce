package namespace

import (
	"slices"
	"strings"
)

// ProtectionPrefix begins the keys of the annotations that protect a namespace from
// deletion; what follows is the name of the protection.
const ProtectionPrefix = "protection.nslifecycle.io/"

// ProtectedCause is the type of the causes of a refusal to delete a protected
// namespace: one for each protection, whose field names the annotation.
const ProtectedCause = "NamespaceProtected"

// The most protections of one namespace that a refusal names in its message, and in its
// causes.
const (
	maxTold   = 10
	maxCauses = 100
)

// Protection keeps a namespace from being deleted for as long as it is there. It is an
// annotation, {ProtectionPrefix}{Name}, so that every client can set, see and remove
// it; its value is a JSON object:
//
//	protection.nslifecycle.io/legal: '{"owner":"team-a","reason":"contract until May"}'
//
// Everybody who may update the namespace may take it off: it keeps from accidents, not
// from intent. It refuses the deletion of an Active namespace ([ValidateDelete]) and
// means nothing once the namespace is terminating (rule R3). A host that deletes
// without asking ValidateDelete, as Kubernetes itself does, is not kept from it.
type Protection struct {
	Name   string `json:"name"`   // as the name part of an annotation's key: at most 63 bytes
	Owner  string `json:"owner"`  // whom to ask; at most 512 bytes
	Reason string `json:"reason"` // why it is protected; at most 1024 bytes
}

// Protections returns the protections of a namespace, sorted by name. Those that
// cannot be read are left out, and are told in the error: an [*Error] of kind
// [ErrInvalid] with one cause each. They protect all the same.
func Protections(m Meta) ([]Protection, error) {
	return namedAnnotations(m, ProtectionPrefix, readProtection)
}

// Annotation returns the annotation that declares p. The error is an [*Error] of kind
// [ErrInvalid] for a protection that nobody could read: one without a name, an owner
// or a reason, or with a text that is too long or not of one line.
func (p Protection) Annotation() (key, value string, err error) {
	return writeAnnotation(ProtectionPrefix+p.Name, p.members())
}

func (p *Protection) members() []member {
	return []member{
		{name: "owner", value: &p.Owner, limit: maxWho},
		{name: "reason", value: &p.Reason, limit: maxWhy},
	}
}

func readProtection(key, text string) (Protection, error) {
	p := Protection{Name: key[len(ProtectionPrefix):]}
	err := readAnnotation(key, text, p.members())
	return p, err
}

// protected returns the refusal to delete n while anything protects it, and nil
// otherwise. What cannot be read protects as well: somebody meant it to.
func protected(n Namespace) error {
	var keys []string
	for key := range n.Annotations {
		if strings.HasPrefix(key, ProtectionPrefix) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	others := more(len(keys))
	var causes []Violation
	var told, named []string
	for i, key := range keys[:min(len(keys), maxCauses)] {
		text := protection(key, n.Annotations[key])
		if i < maxTold {
			told = append(told, text)
			named = append(named, shown(key))
		}
		causes = append(causes, Violation{ProtectedCause, annotationField(key), "protected by " + text})
	}
	return &Error{
		Kind: ErrForbidden, Resource: Resource, Name: n.Name, Causes: causes,
		Message: Resource + " " + quoted(n.Name) + " is forbidden: deletion is protected by " + strings.Join(told, ", ") + others +
			"; remove the annotation" + plural(named) + " " + strings.Join(named, ", ") + others + " first",
	}
}

// protection tells of one protection.
func protection(key, text string) string {
	p, err := readProtection(key, text)
	if err != nil {
		return shown(p.Name) + " (its annotation cannot be read)"
	}
	return p.Name + " (owner " + p.Owner + ": " + p.Reason + ")"
}

func plural(list []string) string {
	if len(list) == 1 {
		return ""
	}
	return "s"
}

package declare

import (
	"strconv"
	"strings"

	"github.com/nslifecycle/nslifecycle/finalizer/syntax"
	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// ProtectedCause is the type of the causes of a refusal to delete a protected namespace. There
// is one for each protection, whose Field names the annotation.
const ProtectedCause = "NamespaceProtected"

// A refusal names at most maxNamed protections in its message and maxCauses in its causes.
const (
	maxNamed  = 10
	maxCauses = 100
)

// Protection refuses the deletion of a namespace. It is an annotation, {ProtectionPrefix}{Name},
// with a JSON object as its value:
//
//	protection.nslifecycle.io/legal: '{"owner":"team-a","reason":"contract until May"}'
//
// Every client that may update the namespace may remove the protection: it prevents accidents,
// not attacks. It applies to requests to delete an Active namespace ([ValidateDelete]) and has
// no effect on a terminating one (rule R3). Kubernetes itself, and a host that deletes without
// calling ValidateDelete, ignores it.
type Protection struct {
	Name   string `json:"name"`   // the name part of the annotation's key: at most 63 bytes
	Owner  string `json:"owner"`  // the person or team to ask; at most 512 bytes
	Reason string `json:"reason"` // at most 1024 bytes
}

// Protections returns the protections of a namespace, sorted by name. It leaves out unreadable
// protections, and returns an [*namespace.Error] of kind [namespace.ErrInvalid] with one cause
// for each of them. Unreadable protections protect as well.
func Protections(m namespace.Meta) ([]Protection, error) {
	return readAll(m, ProtectionPrefix, readProtection)
}

// Annotation returns the annotation that declares p. The error is an [*namespace.Error] of
// kind [namespace.ErrInvalid] if a field is missing, too long or not of one line.
func (p Protection) Annotation() (key, value string, err error) {
	return writeAnnotation(ProtectionPrefix+p.Name, p.fields())
}

func (p *Protection) fields() []field {
	return []field{
		{name: "owner", text: &p.Owner, limit: maxName},
		{name: "reason", text: &p.Reason, limit: maxReason},
	}
}

func readProtection(key, value string) (Protection, error) {
	p := Protection{Name: strings.TrimPrefix(key, ProtectionPrefix)}
	err := readAnnotation(key, value, p.fields())
	return p, err
}

// ValidateDelete is [namespace.ValidateDelete]. It also refuses the deletion of an Active
// namespace that has a [Protection], readable or not, with [namespace.ErrForbidden]. The
// message names up to 10 protections, and Causes has one cause of type [ProtectedCause] for
// each of the first 100.
func ValidateDelete(n namespace.Namespace, p namespace.Preconditions, immortal ...string) error {
	if err := namespace.ValidateDelete(n, p, immortal...); err != nil || n.Phase() == phase.Terminating {
		return err
	}
	keys := keysWith(n.Meta, ProtectionPrefix)
	if len(keys) == 0 {
		return nil
	}
	var causes []namespace.Violation
	var protections, annotations []string
	for i, key := range keys[:min(len(keys), maxCauses)] {
		text := describeProtection(key, n.Annotations[key])
		if i < maxNamed {
			protections = append(protections, text)
			annotations = append(annotations, safeKey(key))
		}
		causes = append(causes, namespace.Violation{Type: ProtectedCause, Field: annotationField(key), Message: "protected by " + text})
	}
	plural, others := "s", andMore(len(keys))
	if len(keys) == 1 {
		plural = ""
	}
	return &namespace.Error{
		Kind: namespace.ErrForbidden, Resource: namespace.Resource, Name: n.Name, Causes: causes,
		Message: subject(n.Meta) + " is forbidden: deletion is protected by " + strings.Join(protections, ", ") + others +
			"; remove the annotation" + plural + " " + strings.Join(annotations, ", ") + others + " first",
	}
}

func describeProtection(key, value string) string {
	p, err := readProtection(key, value)
	if err != nil {
		return safeKey(p.Name) + " (its annotation cannot be read)"
	}
	return p.Name + " (owner " + p.Owner + ": " + p.Reason + ")"
}

// safeKey returns key, in quotes if it is not a valid key.
func safeKey(key string) string {
	if len(syntax.QualifiedName(key)) == 0 {
		return key
	}
	return strconv.Quote(phase.Truncate(key, maxShown))
}

func subject(m namespace.Meta) string {
	return namespace.Resource + " " + strconv.Quote(phase.Truncate(m.Name, maxShown))
}

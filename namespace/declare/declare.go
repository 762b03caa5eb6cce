// Package declare reads and writes the annotations with which operators declare something
// about a namespace, and applies them to requests:
//
//   - a [Protection] refuses the deletion
//   - a [Hold] schedules the deletion, and a grace ([GraceOf]) delays every DELETE
//   - a [Waiver] keeps a failing source from blocking the deletion
//
// Annotations work with every client. No declaration stops or delays a namespace that is
// already terminating.
//
// A host that honors declarations calls [PrepareDelete] in place of [namespace.MarkDeleted], and
// the functions ValidateCreate, ValidateUpdate and ValidateDelete of this package. They include the
// checks of the functions of the same name in package namespace:
//
//	next := namespace.PrepareCreate(asked, token, uid, now)   // create
//	err := declare.ValidateCreate(next)
//
//	next := namespace.PrepareUpdate(old, asked)               // update
//	err := declare.ValidateUpdate(old, next, now)
//
//	err := declare.ValidateDelete(old, preconditions)         // delete
//	next, err := declare.PrepareDelete(old, user, now)
//
// Declarations do not affect the requests for status and finalize.
package declare

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/phase"
)

// The keys of the annotations. ProtectionPrefix and WaiverPrefix are followed by the name of
// the protection or the waiver, of at most 63 bytes.
const (
	ProtectionPrefix = "protection." + domain + "/"
	WaiverPrefix     = "waiver." + domain + "/"
	// HoldAnnotation schedules the deletion of an Active namespace: a [Hold] as JSON.
	// Setting it requires permission to delete the namespace. Package apiserver asks its
	// Authorizer for the verb delete too, and a host that updates namespaces for its users
	// through the Go API must do the same. A create or an update cannot set a past time.
	HoldAnnotation = domain + "/delete-after"
	// GraceAnnotation is a duration ("24h"): DELETE puts the namespace on hold for this
	// duration instead of making it Terminating at once. Until the hold ends the namespace
	// is Active and its content can be created and changed. Package hold ends holds. If it
	// does not run, a namespace stays on hold until it is deleted again.
	GraceAnnotation = domain + "/deletion-grace"

	domain = "nslifecycle.io"
)

// Declares reports whether key is the key of a declaration, in any mix of upper and lower
// case. Only keys in lower case have an effect; ValidateCreate and ValidateUpdate refuse the
// others.
func Declares(key string) bool {
	slash := strings.IndexByte(key, '/')
	start := slash - len(domain)
	switch {
	case start < 0 || !strings.EqualFold(key[start:slash], domain):
		return false
	case start == 0:
		return strings.EqualFold(key, HoldAnnotation) || strings.EqualFold(key, GraceAnnotation)
	}
	return strings.EqualFold(key[:slash+1], ProtectionPrefix) || strings.EqualFold(key[:slash+1], WaiverPrefix)
}

// ValidateCreate is [namespace.ValidateCreate]. It also refuses unreadable declarations, and a
// hold that ends before the time of the creation: a manifest exported from another namespace
// would delete the new one at once.
func ValidateCreate(n namespace.Namespace) error {
	return refuse(n, namespace.ValidateCreate(withoutHold(n)), validate(namespace.Namespace{}, n, n.CreationTimestamp.Time))
}

// ValidateUpdate is [namespace.ValidateUpdate] for a request made at now. It also refuses added
// or changed declarations that are unreadable, a hold in the past, and, if old is terminating,
// every added or changed declaration except a waiver. Unchanged declarations are never refused,
// so that they do not block other updates.
func ValidateUpdate(old, updated namespace.Namespace, now time.Time) error {
	return refuse(updated, namespace.ValidateUpdate(old, withoutHold(updated)), validate(old, updated, now))
}

// withoutHold returns n without its hold annotation, so that annotations of
// [namespace.MaxAnnotations] bytes leave room for the hold that a DELETE sets.
func withoutHold(n namespace.Namespace) namespace.Namespace {
	hold, ok := n.Annotations[HoldAnnotation]
	if ok && len(HoldAnnotation)+len(hold) <= maxValue && utf8.ValidString(hold) {
		n.Annotations = maps.Clone(n.Annotations)
		delete(n.Annotations, HoldAnnotation)
	}
	return n
}

// refuse adds violations to err, the result of a function of package namespace.
func refuse(n namespace.Namespace, err error, violations []namespace.Violation) error {
	if len(violations) == 0 {
		return err
	}
	var refusal *namespace.Error
	switch {
	case err == nil:
	case errors.As(err, &refusal) && refusal.Kind == namespace.ErrInvalid:
		violations = slices.Concat(refusal.Causes, violations)
	default:
		return err
	}
	return namespace.Invalid(namespace.Kind, namespace.Resource, n.Name, violations)
}

// validate returns the violations of the declarations that n adds to old or changes.
func validate(old, n namespace.Namespace, now time.Time) []namespace.Violation {
	var keys []string
	for key, value := range n.Annotations {
		if !Declares(key) || !utf8.ValidString(value) { // ValidateMeta reports invalid UTF-8
			continue
		}
		if before, ok := old.Annotations[key]; !ok || before != value {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var violations []namespace.Violation
	for _, key := range keys {
		if v, ok := validateOne(old, key, n.Annotations[key], now); !ok {
			violations = append(violations, v)
		}
	}
	return violations
}

// validateOne checks one declaration that is added to old or changed.
func validateOne(old namespace.Namespace, key, value string, now time.Time) (namespace.Violation, bool) {
	var err error
	switch {
	case strings.HasPrefix(key, ProtectionPrefix):
		_, err = readProtection(key, value)
	case strings.HasPrefix(key, WaiverPrefix):
		_, err = readWaiver(key, value)
	case key == HoldAnnotation:
		var h Hold
		if h, err = readHold(value); err == nil && h.Due(now) {
			err = errors.New("until is in the past, so the namespace would be deleted at once: omit the annotation")
		}
	case key == GraceAnnotation:
		_, err = readGrace(value)
	default:
		return namespace.InvalidField("metadata.annotations", key, "the key must be in lower case: "+lower(key)), false
	}
	switch {
	case err != nil:
		return unreadable(key, value, err), false
	case old.Phase() == phase.Terminating && !strings.HasPrefix(key, WaiverPrefix):
		return namespace.ForbiddenField(annotationField(key), "the namespace has been terminating since "+
			old.DeletionTimestamp.UTC().Format(time.RFC3339)+"; no protection, hold or grace stops or delays that: omit the annotation"), false
	}
	return namespace.Violation{}, true
}

// lower returns the spelling of a key that has an effect. The names of protections and
// waivers may have upper case letters.
func lower(key string) string {
	prefix, name, _ := strings.Cut(key, "/")
	if len(prefix) == len(domain) {
		name = strings.ToLower(name)
	}
	return strconv.Quote(strings.ToLower(prefix) + "/" + name)
}

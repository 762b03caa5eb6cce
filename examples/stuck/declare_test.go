package main

import (
	"errors"
	"time"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/declare"
)

// protect NAMESPACE NAME OWNER REASON
func (w *world) protect(words []string) error {
	key, value, err := declare.Protection{Name: words[1], Owner: words[2], Reason: words[3]}.Annotation()
	if err != nil {
		return err
	}
	return w.annotate(words[0], key, value)
}

// unprotect NAMESPACE NAME
func (w *world) unprotect(words []string) error {
	return w.annotate(words[0], declare.ProtectionPrefix+words[1], "")
}

// grace NAMESPACE DURATION
func (w *world) grace(words []string) error {
	return w.annotate(words[0], declare.GraceAnnotation, words[1])
}

// restore NAMESPACE
func (w *world) restore(words []string) error {
	_, err := w.registry.Restore(w.ctx, words[0], namespace.Preconditions{})
	return err
}

// waive NAMESPACE SOURCE DURATION BY REASON
func (w *world) waive(words []string) error {
	d, err := time.ParseDuration(words[2])
	if err != nil {
		return err
	}
	key, value, err := declare.Waiver{
		Name: "museum", Source: words[1], By: words[3], Reason: words[4], Until: time.Now().Add(d),
	}.Annotation()
	if err != nil {
		return err
	}
	return w.annotate(words[0], key, value)
}

// annotate sets an annotation of a namespace; an empty value removes it.
func (w *world) annotate(name, key, value string) error {
	for {
		ns, err := w.registry.Get(w.ctx, name)
		if err != nil {
			return err
		}
		if ns.Annotations == nil {
			ns.Annotations = map[string]string{}
		}
		ns.Annotations[key] = value
		if value == "" {
			delete(ns.Annotations, key)
		}
		if _, err = w.registry.Update(w.ctx, ns); !errors.Is(err, namespace.ErrConflict) {
			return err
		}
	}
}

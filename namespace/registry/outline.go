package registry

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nslifecycle/nslifecycle/phase"
	"github.com/nslifecycle/nslifecycle/store"
)

// The parts of stored documents, as the fields of the Go types in their order. A
// field that is missing here only makes documents that have it slower to read.
var (
	metaParts = [...]part{
		metaName:         {name: `"name":`, value: word},
		metaGenerateName: {name: `"generateName":`, value: word},
		metaNamespace:    {name: `"namespace":`, value: word},
		metaSelfLink:     {name: `"selfLink":`, value: word},
		metaUID:          {name: `"uid":`, value: word},
		// resourceVersion is not stored; it comes here
		metaGeneration:  {name: `"generation":`, value: count},
		metaCreation:    {name: `"creationTimestamp":`, value: moment},
		metaDeletion:    {name: `"deletionTimestamp":`, value: moment},
		metaGrace:       {name: `"deletionGracePeriodSeconds":`, value: integer},
		metaLabels:      {name: `"labels":`, value: texts},
		metaAnnotations: {name: `"annotations":`, value: texts},
		metaOwners:      {name: `"ownerReferences":`, value: owners},
		metaFinalizers:  {name: `"finalizers":`, value: names},
		metaManaged:     {name: `"managedFields":`, value: managed},
	}
	ownerParts = []part{
		{name: `"apiVersion":`, value: text, must: true},
		{name: `"kind":`, value: text, must: true},
		{name: `"name":`, value: text, must: true},
		{name: `"uid":`, value: text, must: true},
		{name: `"controller":`, value: boolean},
		{name: `"blockOwnerDeletion":`, value: boolean},
	}
	managedParts = []part{
		{name: `"manager":`, value: word},
		{name: `"operation":`, value: word},
		{name: `"apiVersion":`, value: word},
		{name: `"time":`, value: moment},
		{name: `"fieldsType":`, value: word},
		{name: `"fieldsV1":`, value: embedded},
		{name: `"subresource":`, value: word},
	}
	specParts   = []part{{name: `"finalizers":`, value: names}}
	statusParts = []part{
		statusPhase:      {name: `"phase":`, value: word, must: true},
		statusConditions: {name: `"conditions":`, value: conditions},
	}
	conditionParts = []part{
		{name: `"type":`, value: text, must: true},
		{name: `"status":`, value: text, must: true},
		{name: `"lastTransitionTime":`, value: moment, must: true},
		{name: `"reason":`, value: word},
		{name: `"message":`, value: word},
	}
)

const (
	metaName = iota
	metaGenerateName
	metaNamespace
	metaSelfLink
	metaUID
	metaGeneration
	metaCreation
	metaDeletion
	metaGrace
	metaLabels
	metaAnnotations
	metaOwners
	metaFinalizers
	metaManaged
)

const (
	statusPhase = iota
	statusConditions
)

func listOf(data []byte, i int, parts []part) int {
	return list1(data, i, func(data []byte, i int) int { return object(data, i, parts, nil) })
}

func owners(data []byte, i int) int     { return listOf(data, i, ownerParts) }
func managed(data []byte, i int) int    { return listOf(data, i, managedParts) }
func conditions(data []byte, i int) int { return listOf(data, i, conditionParts) }

// outline tells where things are in a document that is in the form in which this
// package stores it.
type outline struct {
	doc  []byte
	meta [len(metaParts)]span
	from int // where the metadata begin
	rest int // where they have ended
}

// read finds what there is before and in the metadata of doc. It reports false for
// a document in another form, which has to be decoded.
func (o *outline) read(doc []byte) bool {
	*o = outline{doc: doc}
	if len(doc) > MaxObject || !utf8.Valid(doc) || len(doc) == 0 || doc[0] != '{' {
		return false
	}
	i := 1
	for _, name := range [...]string{`"kind":`, `"apiVersion":`} {
		if !hasAt(doc, i, name) {
			continue
		}
		if i = plain(doc, i+len(name)); i < 0 || i >= len(doc) || doc[i] != ',' {
			return false
		}
		i++
	}
	const metadata = `"metadata":`
	if !hasAt(doc, i, metadata) {
		return false
	}
	o.from = i + len(metadata)
	o.rest = object(doc, o.from, metaParts[:], o.meta[:])
	return o.rest > 0
}

// namespace reports whether what follows the metadata is that of a namespace.
func (o *outline) namespace() bool {
	i := o.rest
	if !hasAt(o.doc, i, `,"spec":`) {
		return false
	}
	i = object(o.doc, i+len(`,"spec":`), specParts, nil)
	if i < 0 || !hasAt(o.doc, i, `,"status":`) {
		return false
	}
	var status [2]span
	i = object(o.doc, i+len(`,"status":`), statusParts, status[:])
	if i != len(o.doc)-1 || o.doc[i] != '}' {
		return false
	}
	value := status[statusPhase].of(o.doc)
	return string(value[1:len(value)-1]) == string(o.phase()) // rule R2: what is stored does not count
}

// phase derives the phase (rule R2). A time that is there is not zero.
func (o *outline) phase() phase.Phase {
	if o.meta[metaDeletion] == (span{}) {
		return phase.Active
	}
	return phase.Terminating
}

// object reports whether what follows the metadata is that of an [Object].
func (o *outline) object() bool {
	doc := o.doc
	var last []byte
	for i := o.rest; ; {
		if i == len(doc)-1 && doc[i] == '}' {
			return true
		}
		if i >= len(doc) || doc[i] != ',' {
			return false
		}
		from := i + 1
		if i = plain(doc, from); i < 0 || i >= len(doc) || doc[i] != ':' {
			return false
		}
		name := doc[from+1 : i-1]
		if reserved(string(name)) || last != nil && bytes.Compare(last, name) >= 0 {
			return false
		}
		last = name
		if i = compact(doc, i+1); i < 0 {
			return false
		}
	}
}

// room is how much longer a document becomes by its version, at most.
const room = len(`,"resourceVersion":"9223372036854775807"`)

// spliced appends the document with its version in its place.
func (o *outline) spliced(buf []byte, version store.Revision) []byte {
	at := o.from + 1
	for _, s := range o.meta[:metaUID+1] {
		at = max(at, s.to)
	}
	buf = append(buf, o.doc[:at]...)
	if at > o.from+1 {
		buf = append(buf, ',')
	}
	buf = append(buf, `"resourceVersion":"`...)
	buf = strconv.AppendInt(buf, int64(version), 10)
	buf = append(buf, '"')
	if at == o.from+1 && o.doc[at] != '}' {
		buf = append(buf, ',')
	}
	return append(buf, o.doc[at:]...)
}

// name returns the string at a part of the metadata; empty when it is not there.
func (o *outline) name(part int) (string, error) {
	at := o.meta[part]
	if at == (span{}) {
		return "", nil
	}
	return unquote(at.of(o.doc))
}

// labels reads the labels into a map, which it clears first.
func (o *outline) labels(into map[string]string) error {
	clear(into)
	at := o.meta[metaLabels]
	if at == (span{}) {
		return nil
	}
	all := string(at.of(o.doc)) // shared by the keys and values: one allocation
	for i := 0; all[i] != '}'; {
		colon := plain(o.doc, at.from+i+1) - at.from
		end := text(o.doc, at.from+colon+1) - at.from
		value := all[colon+2 : end-1]
		if strings.IndexByte(value, '\\') >= 0 {
			unescaped, err := unquote(o.doc[at.from+colon+1 : at.from+end])
			if err != nil {
				return err
			}
			value = unescaped
		}
		into[all[i+2:colon-1]] = value
		i = end
	}
	return nil
}

// fields returns the fields of an [Object]. They are parts of the document.
func (o *outline) fields() (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	err := eachField(o.doc, func(name string, value []byte) error {
		if !reserved(name) {
			fields[name] = value
		}
		return nil
	})
	return fields, err
}

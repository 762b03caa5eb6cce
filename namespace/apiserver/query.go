package apiserver

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
	"github.com/nslifecycle/nslifecycle/namespace/selector"
)

// query has the parameters of a request. Parameters that do not apply to its verb are
// ignored, as in Kubernetes.
type query struct {
	list                 registry.ListOptions // for a watch: the selectors and the resource version
	resourceVersionMatch metav1.ResourceVersionMatch
	timeoutSeconds       *int64
	bookmarks            bool // allowWatchBookmarks
	sendInitialEvents    *bool
	dryRun               []string
	fieldManager         string
	fieldValidation      string
	force                *bool  // of an apply patch
	includeObject        string // of tables
	pretty               bool
	deletion             metav1.DeleteOptions
}

// maxQuery bounds the query in bytes: two escaped selectors of the maximum length, and the
// rest.
const maxQuery = 8 * selector.MaxLength

// parseQuery parses the parameters. Every error names the parameter.
func parseQuery(raw string, rt route) (query, error) {
	if len(raw) > maxQuery {
		return query{}, apierrors.NewBadRequest("the query has " + strconv.Itoa(len(raw)) + " bytes, at most " + strconv.Itoa(maxQuery) + " are allowed")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, apierrors.NewBadRequest("the query cannot be read: " + err.Error())
	}
	p := parameters{values: values}
	q := query{pretty: p.bool("pretty"), includeObject: p.oneOf("includeObject", "", "None", "Metadata", "Object")}
	switch rt.Verb {
	case "get":
		q.list.ResourceVersion = p.one("resourceVersion")
	case "list", "watch":
		q.readList(&p)
		q.readWatch(&p)
	case "create", "update", "patch":
		q.readWrite(&p)
	case "deletecollection":
		q.readList(&p)
		fallthrough
	case "delete":
		q.readDelete(&p)
	}
	if p.err == nil {
		p.err = q.check(rt.Verb)
	}
	return q, p.err
}

func (q *query) readList(p *parameters) {
	var err error
	if q.list.Labels, err = selector.ParseLabels(p.one("labelSelector")); err != nil {
		p.refuse(err)
	}
	if q.list.Fields, err = selector.ParseFields(p.one("fieldSelector")); err != nil {
		p.refuse(err)
	}
	if limit := p.int("limit"); limit != nil {
		q.list.Limit = int(min(*limit, 1<<30)) // the registry refuses a negative one
	}
	q.list.Continue = p.one("continue")
	q.list.ResourceVersion = p.one("resourceVersion")
	q.resourceVersionMatch = metav1.ResourceVersionMatch(p.one("resourceVersionMatch"))
	q.list.Exact = q.resourceVersionMatch == metav1.ResourceVersionMatchExact
}

func (q *query) readWatch(p *parameters) {
	p.bool("watch")
	q.bookmarks = p.bool("allowWatchBookmarks")
	if q.timeoutSeconds = p.int("timeoutSeconds"); q.timeoutSeconds != nil && *q.timeoutSeconds < 0 {
		p.refuse(badParameter("timeoutSeconds", "%d must not be negative", *q.timeoutSeconds))
	}
	if p.has("sendInitialEvents") {
		on := p.bool("sendInitialEvents")
		q.sendInitialEvents = &on
	}
}

func (q *query) readWrite(p *parameters) {
	q.dryRun = p.values["dryRun"]
	q.fieldManager = p.one("fieldManager")
	q.fieldValidation = p.one("fieldValidation")
	if p.has("force") {
		on := p.bool("force")
		q.force = &on
	}
}

func (q *query) readDelete(p *parameters) {
	q.dryRun = p.values["dryRun"]
	q.deletion.GracePeriodSeconds = p.int("gracePeriodSeconds")
	if p.has("propagationPolicy") {
		policy := metav1.DeletionPropagation(p.one("propagationPolicy"))
		q.deletion.PropagationPolicy = &policy
	}
	if p.has("orphanDependents") {
		on := p.bool("orphanDependents")
		//lint:ignore SA1019 old clients send it instead of the propagation policy
		q.deletion.OrphanDependents = &on
	}
	if p.has("uid") {
		q.deletion.Preconditions = metav1.NewUIDPreconditions(p.one("uid"))
	}
}

// check rejects contradicting parameters, in the words of Kubernetes. The options of a patch
// and of a deletion are checked together with the body.
func (q *query) check(verb string) error {
	switch verb {
	case "list", "watch":
		return optionsFault("ListOptions", validation.ValidateListOptions(&internalversion.ListOptions{
			Watch: verb == "watch", ResourceVersion: q.list.ResourceVersion, ResourceVersionMatch: q.resourceVersionMatch,
			Continue: q.list.Continue, SendInitialEvents: q.sendInitialEvents,
		}, true))
	case "create":
		return optionsFault("CreateOptions", metav1validation.ValidateCreateOptions(&metav1.CreateOptions{
			DryRun: q.dryRun, FieldManager: q.fieldManager, FieldValidation: q.fieldValidation,
		}))
	case "update":
		return optionsFault("UpdateOptions", metav1validation.ValidateUpdateOptions(&metav1.UpdateOptions{
			DryRun: q.dryRun, FieldManager: q.fieldManager, FieldValidation: q.fieldValidation,
		}))
	}
	return nil
}

// optionsFault returns the violations of options as an error.
func optionsFault(kind string, wrong field.ErrorList) error {
	if len(wrong) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", wrong)
}

// parameters reads values and keeps the first error.
type parameters struct {
	values url.Values
	err    error
}

func (p *parameters) refuse(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *parameters) has(name string) bool { return p.values.Has(name) }

// one returns the value of a parameter that must not be repeated.
func (p *parameters) one(name string) string {
	values := p.values[name]
	switch {
	case len(values) == 0:
		return ""
	case len(values) > 1:
		p.refuse(badParameter(name, "must be given only once, it is there %d times", len(values)))
	}
	return values[0]
}

func (p *parameters) oneOf(name string, known ...string) string {
	value := p.one(name)
	if !slices.Contains(known, value) {
		p.refuse(badParameter(name, "%q is not supported, must be one of %s", excerpt(value), strings.Join(known[1:], ", ")))
	}
	return value
}

func (p *parameters) int(name string) *int64 {
	text := p.one(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.refuse(badParameter(name, "%q must be an integer", excerpt(text)))
		return nil
	}
	return &n
}

// bool returns a flag. A parameter without a value sets it.
func (p *parameters) bool(name string) bool {
	if !p.has(name) {
		return false
	}
	on, err := parseBool(name, p.one(name))
	if err != nil {
		p.refuse(err)
	}
	return on
}

func parseBool(name, text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	on, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		return false, badParameter(name, "%q must be true or false", excerpt(text))
	}
	return on, nil
}

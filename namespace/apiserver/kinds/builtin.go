package kinds

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// core returns a namespaced kind of the core group without metadata.generation.
func core(resource, kind string, object, list runtime.Object, columns ...Column) Kind {
	return Kind{
		Type:    registry.Type{Version: "v1", Resource: resource, Kind: kind, Namespaced: true, Ungenerated: true},
		Columns: columns, Object: object, List: list,
	}
}

// Namespaces returns the kind v1/Namespace. A server always serves it. It is not a resource
// type of a registry.
func Namespaces() Kind {
	k := core("namespaces", "Namespace", &corev1.Namespace{}, &corev1.NamespaceList{},
		Column{Name: "Status", Description: "The status of the namespace", Value: stringAt("status", "phase")}, age)
	k.Namespaced = false
	k.ShortNames = []string{"ns"}
	return k
}

// ConfigMaps returns the kind v1/ConfigMap.
func ConfigMaps() Kind {
	k := core("configmaps", "ConfigMap", &corev1.ConfigMap{}, &corev1.ConfigMapList{},
		Column{Name: "Data", Description: doc(corev1.ConfigMap{}, "data"), Value: countOf("data", "binaryData")}, age)
	k.ShortNames = []string{"cm"}
	k.Validate = validateConfigMap
	return k
}

// Secrets returns the kind v1/Secret. Field selectors may select by type.
func Secrets() Kind {
	k := core("secrets", "Secret", &corev1.Secret{}, &corev1.SecretList{},
		Column{Name: "Type", Description: doc(corev1.Secret{}, "type"), Value: stringAt("type")},
		Column{Name: "Data", Description: doc(corev1.Secret{}, "data"), Value: countOf("data")}, age)
	k.Fields = []string{"type"}
	k.Default = defaultSecret
	k.Validate = validateSecret
	return k
}

// ServiceAccounts returns the kind v1/ServiceAccount.
func ServiceAccounts() Kind {
	k := core("serviceaccounts", "ServiceAccount", &corev1.ServiceAccount{}, &corev1.ServiceAccountList{},
		Column{Name: "Secrets", Description: doc(corev1.ServiceAccount{}, "secrets"), Value: countOf("secrets")}, age)
	k.ShortNames = []string{"sa"}
	return k
}

// Events returns the kind v1/Event. Field selectors may select by involved object, reason, type
// and reporting component.
func Events() Kind {
	k := core("events", "Event", &corev1.Event{}, &corev1.EventList{}, eventColumns()...)
	k.ShortNames = []string{"ev"}
	k.Fields = []string{
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
		"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
		"reason", "reportingComponent", "type",
	}
	k.Validate = validateEvent
	return k
}

// ResourceQuotas returns the kind v1/ResourceQuota. Its status is a sub-resource.
func ResourceQuotas() Kind {
	k := core("resourcequotas", "ResourceQuota", &corev1.ResourceQuota{}, &corev1.ResourceQuotaList{},
		Column{Name: "Request", Description: "Request represents a minimum amount of cpu/memory that a container may consume.", Value: quotaRequests},
		Column{Name: "Limit", Description: "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.", Value: quotaLimits},
		age)
	k.ShortNames = []string{"quota"}
	k.Status = true
	return k
}

// LimitRanges returns the kind v1/LimitRange.
func LimitRanges() Kind {
	k := core("limitranges", "LimitRange", &corev1.LimitRange{}, &corev1.LimitRangeList{},
		Column{Name: "Created At", Type: "date", Description: doc(metav1.ObjectMeta{}, "creationTimestamp"), Value: createdAt})
	k.ShortNames = []string{"limits"}
	return k
}

// Leases returns the kind coordination.k8s.io/v1 Lease.
func Leases() Kind {
	return Kind{
		Type: registry.Type{
			Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Kind: "Lease", Namespaced: true, Ungenerated: true,
		},
		Columns: []Column{
			{Name: "Holder", Description: doc(coordinationv1.LeaseSpec{}, "holderIdentity"), Value: stringAt("spec", "holderIdentity")}, age,
		},
		Object: &coordinationv1.Lease{}, List: &coordinationv1.LeaseList{},
		Validate: validateLease,
	}
}

// doc returns the documentation of a field of a Kubernetes type.
func doc(t interface{ SwaggerDoc() map[string]string }, field string) string {
	return t.SwaggerDoc()[field]
}

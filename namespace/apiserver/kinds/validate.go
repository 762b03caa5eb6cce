package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nslifecycle/nslifecycle/namespace"
	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

// The rules of this file, and their texts, are Kubernetes'.

// maxData limits the total bytes of the values of a ConfigMap or Secret.
const maxData = corev1.MaxSecretSize

func validateConfigMap(old, updated *registry.Object) []namespace.Violation {
	var text map[string]string
	var binary map[string][]byte
	decode(updated.Fields["data"], &text)
	decode(updated.Fields["binaryData"], &binary)
	wrong := validateKeys("data", text)
	for _, key := range slices.Sorted(maps.Keys(text)) {
		if _, twice := binary[key]; twice {
			wrong = append(wrong, namespace.InvalidField(keyed("data", key), key, "duplicate of key present in binaryData"))
		}
	}
	wrong = append(wrong, validateKeys("binaryData", binary)...)
	if sizeOf(text)+sizeOf(binary) > maxData {
		wrong = append(wrong, tooLong("[]"))
	}
	return append(wrong, frozen(old, updated, "data", "binaryData")...)
}

func validateSecret(old, updated *registry.Object) []namespace.Violation {
	var data map[string][]byte
	decode(updated.Fields["data"], &data)
	wrong := validateKeys("data", data)
	if sizeOf(data) > maxData {
		wrong = append(wrong, tooLong("data"))
	}
	wrong = append(wrong, validateSecretType(updated, data)...)
	if old != nil {
		if before, now := stringAt("type")(*old).(string), stringAt("type")(*updated).(string); before != now {
			wrong = append(wrong, namespace.InvalidField("type", now, "field is immutable"))
		}
	}
	return append(wrong, frozen(old, updated, "data")...)
}

// validateSecretType checks for the keys and annotations that a Secret's type requires.
func validateSecretType(o *registry.Object, data map[string][]byte) []namespace.Violation {
	var wrong []namespace.Violation
	needs := func(keys ...string) {
		for _, key := range keys {
			if _, ok := data[key]; !ok {
				wrong = append(wrong, required(keyed("data", key)))
			}
		}
	}
	needsJSON := func(key string) {
		if value, ok := data[key]; !ok {
			needs(key)
		} else if err := json.Unmarshal(value, new(map[string]json.RawMessage)); err != nil {
			wrong = append(wrong, namespace.InvalidField(keyed("data", key), "<secret contents redacted>", err.Error()))
		}
	}
	switch corev1.SecretType(stringAt("type")(*o).(string)) {
	case corev1.SecretTypeServiceAccountToken:
		if o.Annotations[corev1.ServiceAccountNameKey] == "" {
			wrong = append(wrong, required(keyed("metadata.annotations", corev1.ServiceAccountNameKey)))
		}
	case corev1.SecretTypeDockercfg:
		needsJSON(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		needsJSON(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, user := data[corev1.BasicAuthUsernameKey]
		_, password := data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			needs(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(data[corev1.SSHAuthPrivateKey]) == 0 {
			wrong = append(wrong, required(keyed("data", corev1.SSHAuthPrivateKey)))
		}
	case corev1.SecretTypeTLS:
		needs(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return wrong
}

// validateEvent refuses an event whose involved object is in another namespace, unless the stored
// event already names that namespace.
func validateEvent(old, updated *registry.Object) []namespace.Violation {
	about := stringAt("involvedObject", "namespace")
	ns, _ := about(*updated).(string)
	if ns == "" || ns == updated.Namespace {
		return nil
	}
	if old != nil {
		if before, _ := about(*old).(string); before == ns {
			return nil
		}
	}
	return []namespace.Violation{namespace.InvalidField("involvedObject.namespace", ns, "does not match event.namespace")}
}

func validateLease(_, updated *registry.Object) []namespace.Violation {
	var spec struct {
		LeaseDurationSeconds, LeaseTransitions *int64
	}
	decode(updated.Fields["spec"], &spec)
	var wrong []namespace.Violation
	if d := spec.LeaseDurationSeconds; d != nil && *d <= 0 {
		wrong = append(wrong, invalidNumber("spec.leaseDurationSeconds", *d, "must be greater than 0"))
	}
	if n := spec.LeaseTransitions; n != nil && *n < 0 {
		wrong = append(wrong, invalidNumber("spec.leaseTransitions", *n, "must be greater than or equal to 0"))
	}
	return wrong
}

// validateKeys checks that every key is a valid file name.
func validateKeys[V ~string | ~[]byte](field string, values map[string]V) []namespace.Violation {
	var wrong []namespace.Violation
	for _, key := range slices.Sorted(maps.Keys(values)) {
		for _, text := range validation.IsConfigMapKey(key) {
			wrong = append(wrong, namespace.InvalidField(keyed(field, key), key, text))
		}
	}
	return wrong
}

func sizeOf[V ~string | ~[]byte](values map[string]V) int {
	size := 0
	for _, value := range values {
		size += len(value)
	}
	return size
}

// frozen refuses changes to fields of an immutable object.
func frozen(old, updated *registry.Object, fields ...string) []namespace.Violation {
	if old == nil || !isTrue(old.Fields["immutable"]) {
		return nil
	}
	var wrong []namespace.Violation
	const rule = "field is immutable when `immutable` is set"
	if !isTrue(updated.Fields["immutable"]) {
		wrong = append(wrong, namespace.ForbiddenField("immutable", rule))
	}
	for _, field := range fields {
		if !sameValues(old.Fields[field], updated.Fields[field]) {
			wrong = append(wrong, namespace.ForbiddenField(field, rule))
		}
	}
	return wrong
}

func isTrue(value json.RawMessage) bool {
	var set bool
	return decode(value, &set) && set
}

// sameValues compares two JSON objects of strings. A missing object equals an empty one.
func sameValues(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var before, now map[string]string
	decode(a, &before)
	decode(b, &now)
	return maps.Equal(before, now)
}

func keyed(field, key string) string { return field + "[" + key + "]" }

func invalidNumber(field string, value int64, rule string) namespace.Violation {
	return namespace.Violation{
		Type: namespace.FieldInvalid, Field: field, Message: fmt.Sprintf("Invalid value: %d: %s", value, rule),
	}
}

func required(field string) namespace.Violation {
	return namespace.Violation{Type: namespace.FieldRequired, Field: field, Message: "Required value"}
}

func tooLong(field string) namespace.Violation {
	return namespace.Violation{
		Type: namespace.FieldTooLong, Field: field, Message: fmt.Sprintf("Too long: may not be more than %d bytes", maxData),
	}
}

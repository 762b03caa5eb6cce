package kinds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nslifecycle/nslifecycle/namespace/registry"
)

func quotaRequests(o registry.Object) any { return quotaUse(o, false) }

func quotaLimits(o registry.Object) any { return quotaUse(o, true) }

// quotaUse lists "name: used/hard" of the resources that begin with "limits.", or
// of all others.
func quotaUse(o registry.Object, limits bool) string {
	var status corev1.ResourceQuotaStatus
	decode(o.Fields["status"], &status)
	var shown []string
	for _, name := range slices.Sorted(maps.Keys(status.Hard)) {
		if strings.HasPrefix(string(name), "limits.") == limits {
			used, hard := status.Used[name], status.Hard[name]
			shown = append(shown, fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String()))
		}
	}
	return strings.Join(shown, ", ")
}

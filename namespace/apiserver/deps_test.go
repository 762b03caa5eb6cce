package apiserver

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/stretchr/testify/require"
	_ "gopkg.in/evanphx/json-patch.v4"
	_ "k8s.io/api/apidiscovery/v2"
	_ "k8s.io/api/coordination/v1"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/util/managedfields"
	_ "k8s.io/apimachinery/pkg/util/strategicpatch"
	_ "k8s.io/kube-openapi/pkg/validation/spec"
	_ "sigs.k8s.io/json"
	_ "sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	_ "sigs.k8s.io/yaml"
)

package clients

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/nslifecycle/nslifecycle/namespace/apiserver"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/stretchr/testify/require"
	_ "k8s.io/client-go/dynamic"
	_ "k8s.io/client-go/informers"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/metadata"
	_ "k8s.io/client-go/tools/leaderelection"
)

package kubernetes

import (
	"time"

	"github.com/nslifecycle/nslifecycle/deleter"
)

func target() deleter.Target { return targetOf("n") }

func targetOf(name string) deleter.Target {
	return deleter.Target{Namespace: name, UID: "uid-of-" + name, DeletedAt: time.Unix(1, 0)}
}

// Package parties lets the agents that finalize namespaces announce themselves in the
// store, so that a namespace which waits for one can tell whether anybody is there.
package parties

import (
	"time"

	"github.com/nslifecycle/nslifecycle/finalizer"
)

// Party is the owner of a finalizer, as it announced itself.
type Party struct {
	Finalizer finalizer.Name `json:"finalizer"`
	Contact   string         `json:"contact,omitempty"`   // whom to ask: of the instance seen last
	Instances []Instance     `json:"instances,omitempty"` // by label; the last that was seen, if none is alive
	LastSeen  time.Time      `json:"lastSeen"`            // the latest of them
	Alive     bool           `json:"alive"`               // any of them is
}

// Instance is one process of a party.
type Instance struct {
	Label    string    `json:"label"`
	Since    time.Time `json:"since"`
	LastSeen time.Time `json:"lastSeen"`
	Alive    bool      `json:"alive"`
}

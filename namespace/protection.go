package namespace

// ProtectionPrefix begins the keys of the annotations that protect a namespace from
// deletion; what follows is the name of the protection.
const ProtectionPrefix = "protection.nslifecycle.io/"

// Protection keeps a namespace from being deleted for as long as it is there. It is an
// annotation, {ProtectionPrefix}{Name}, so that every client can set, see and remove it.
type Protection struct {
	Name   string `json:"-"`
	Owner  string `json:"owner"`  // whom to ask
	Reason string `json:"reason"` // why it is protected
}

package apiserver

import (
	"time"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// Hooks are told what happens. Nil members are not called. They are called in the
// goroutine of the request, by many at once, and should be quick.
type Hooks struct {
	// Refused is called when the Authorizer refused a request, before it is answered.
	Refused func(Refusal)
	// Served is called at the end of every request, whatever became of it.
	Served func(Served)
}

// Refusal is a request that was not allowed.
type Refusal struct {
	User       authorization.User
	Attributes authorization.Attributes
	Reason     string // what the Authorizer said; may be empty
}

// Served is a request and what it was answered.
type Served struct {
	Attributes authorization.Attributes // with the user, if the request came that far
	Code       int                      // zero: nothing was sent
	Bytes      int64                    // of the body that was sent
	Events     int64                    // of a watch
	Duration   time.Duration
	Failure    string // the message of the Status that was sent, or why the answer was cut off; empty: none
}

// refuse tells the host about a request that was not allowed.
func (s *Server) refuse(a authorization.Attributes, reason string) {
	if s.options.Hooks.Refused != nil {
		s.options.Hooks.Refused(Refusal{User: a.User, Attributes: a, Reason: reason})
	}
}

package explain

// Recorder keeps the latest passes of each namespace that is terminating. Make one
// with [NewRecorder], and give its Hooks to the controller. It is safe for concurrent
// use.
type Recorder struct{}

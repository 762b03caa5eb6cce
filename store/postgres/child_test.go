package postgres_test

// child runs this binary as another process, when it was started as one.
func child() bool { return false }

package explain

import "time"

// History is what was seen of one incarnation of a namespace. The zero History is:
// nothing.
type History struct {
	UID      string
	Began    time.Time // the first pass
	Passes   []Pass    // the latest, the oldest first
	Total    int       // passes so far
	Removed  int       // objects deleted so far, as far as known
	Objects  []Objects // as of the last pass that looked
	Failures []Failure // the last one first; bounded
	// Failing are the sources that failed in the last pass.
	Failing []string
	// Conflicts counts passes that were lost to the writes of others.
	Conflicts int
	Next      *Next // nil: it is looked at now, or nothing is known
}

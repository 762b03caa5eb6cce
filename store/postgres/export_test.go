package postgres

// WriterLock is the number of the lock of all writers of a schema.
func WriterLock(schema string) int64 { return newStatements(schema).lock }

// HoldClass is the class of the locks of those who hold entries of a schema.
func HoldClass(schema string) int32 { return newStatements(schema).class }

// Queued is how many requests the committer has not taken.
func (s *Store) Queued() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.waiting)
}

package apiserver

import "time"

// Limits bound what requests may take. Zero fields take the defaults; negative
// ones are refused, and times of more than a year.
type Limits struct {
	// Body is how many bytes the body of a request may have; default 3 MiB. More is
	// 413.
	Body int64
	// Memory bounds the bytes that all requests together use for bodies, decoded values and
	// answers, including garbage; default 384 MiB, at least 16 MiB. Requests are weighed
	// before they are decoded: a small document with very many values is heavy, above all in
	// YAML. One client gets at most half. A request heavier than that is answered 413. A
	// request that finds the memory in use waits for up to Queue and is then answered 429.
	// Memory for an object or a part of a list is reserved before it is read from the store.
	// Plain JSON lists are read and sent in parts.
	Memory int64
	// Page bounds the objects in a page of a list with a limit; default 10,000. A page also
	// ends at 1 MiB of objects. A list without a limit is answered in full. If it has to be
	// converted (to YAML, protobuf or a Table) and exceeds a client's share of Memory, it is
	// answered 413; the client must then set a limit.
	Page int

	// Reads and Writes are how many requests that read, and that write, are served at
	// once; default 400 and 200. One client has at most half of them. Further
	// requests wait for a short time, each client in its turn, and are then answered
	// 429. A client is a user, or where nobody is known an address. A watch that is
	// sent the state first is a request that reads until that was sent.
	Reads, Writes int
	// Queue is how long a request waits for its turn; default 5 s.
	Queue time.Duration
	// Watches is how many watches one client may have open, AllWatches how many all
	// have; default 1,000 and 50,000. Further ones are answered 429.
	Watches, AllWatches int

	// Timeout ends requests other than watches with 504; default 60 s.
	Timeout time.Duration
	// Wait is how long a request for a resource version that is not there yet waits
	// for it; default 3 s.
	Wait time.Duration
	// WatchTimeout ends watches that do not say how long they want to be; default 30
	// minutes and up to as much again, so that clients do not all return at once.
	WatchTimeout time.Duration

	// Header is how long a client may take to send the header of a request, and
	// HeaderBytes how large that may be; default 10 s and 64 KiB. Idle is how long a
	// connection may be without a request; default 3 minutes. All three are for
	// [Server.Serve] only.
	Header      time.Duration
	HeaderBytes int
	Idle        time.Duration
	// Arrive is how long the body of a request may take to arrive; default 30 s.
	// Later is 408.
	Arrive time.Duration
	// Stall is how long a client may be behind with taking what it is sent; default
	// 30 s, and not checked more often than twice in that time. Then its connection is
	// cut. Rate is how many bytes a second it must take on average to make up for
	// that, while there is more to send; default 128 KiB. So an answer is taken within
	// Stall and the time that its size has at Rate, or not at all: the slot of a
	// request is held until then, and with it the memory of the answer.
	Stall time.Duration
	Rate  int
	// Drain is how long [Server.Serve] waits for requests at its end; default 30 s.
	Drain time.Duration
}

// longest is the most that any time may be, so that sums of them do not overflow.
const longest = 365 * 24 * time.Hour

// withDefaults returns l complete, or what is wrong with it.
func (l Limits) withDefaults() (Limits, error) {
	const most = 1 << 24 // a limiter has room for as many
	for _, f := range []struct {
		name     string
		value    *int
		fallback int
	}{
		{"Page", &l.Page, 10_000}, {"Reads", &l.Reads, 400}, {"Writes", &l.Writes, 200},
		{"Watches", &l.Watches, 1000}, {"AllWatches", &l.AllWatches, 50_000}, {"HeaderBytes", &l.HeaderBytes, 64 << 10},
		{"Rate", &l.Rate, 128 << 10},
	} {
		if *f.value < 0 {
			return l, invalidOption("option Limits.%s is %d, it must not be negative", f.name, *f.value)
		}
		if *f.value > most {
			return l, invalidOption("option Limits.%s is %d, it must not be more than %d", f.name, *f.value, most)
		}
		orElse(f.value, f.fallback)
	}
	for _, f := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
	}{
		{"Queue", &l.Queue, 5 * time.Second}, {"Timeout", &l.Timeout, time.Minute}, {"Wait", &l.Wait, 3 * time.Second},
		{"WatchTimeout", &l.WatchTimeout, 30 * time.Minute}, {"Header", &l.Header, 10 * time.Second}, {"Idle", &l.Idle, 3 * time.Minute},
		{"Arrive", &l.Arrive, 30 * time.Second}, {"Stall", &l.Stall, 30 * time.Second}, {"Drain", &l.Drain, 30 * time.Second},
	} {
		if *f.value < 0 {
			return l, invalidOption("option Limits.%s is %v, it must not be negative", f.name, *f.value)
		}
		if *f.value > longest {
			return l, invalidOption("option Limits.%s is %v, it must not be more than %v", f.name, *f.value, longest)
		}
		orElse(f.value, f.fallback)
	}
	if l.Body < 0 {
		return l, invalidOption("option Limits.Body is %d, it must not be negative", l.Body)
	}
	orElse(&l.Body, 3<<20)
	orElse(&l.Memory, 384<<20)
	if l.Memory < 16<<20 {
		return l, invalidOption("option Limits.Memory is %d, it must be at least %d", l.Memory, 16<<20)
	}
	return l, nil
}

package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nslifecycle/nslifecycle/store"
	"github.com/nslifecycle/nslifecycle/store/memory"
	"github.com/nslifecycle/nslifecycle/store/storetest"
)

// ExampleRun is the test of a custom backend.
func ExampleRun() {
	_ = func(t *testing.T) { // TestConformance
		storetest.Run(t, func(t testing.TB) storetest.Backend {
			s, err := memory.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			return storetest.Backend{Store: s, Limits: s.Limits(), Compacts: true, Counts: true}
		})
	}
}

// ExampleInject shows a write that takes effect although its answer is lost. The caller reads
// back.
func ExampleInject() {
	ctx := context.Background()
	m, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := storetest.Inject(m, func(a storetest.Attempt) storetest.Fault {
		if a.Method == "commit" && a.N == 0 {
			return storetest.Fault{Kind: storetest.Landed}
		}
		return storetest.Fault{}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	_, err = s.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte("mine"))}})
	fmt.Println(errors.Is(err, store.ErrUnknownOutcome))
	e, err := s.Get(ctx, "k")
	fmt.Printf("%s %v\n", e.Value, err)
	fmt.Println(s.Injected())
	// Output:
	// true
	// mine <nil>
	// map[landed:1]
}

// ExampleRecorder records the calls of clients and checks that one order explains all answers.
func ExampleRecorder() {
	ctx := context.Background()
	m, err := memory.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	var recorder storetest.Recorder
	alice, bob := recorder.Store(0, m), recorder.Store(1, m)
	_, err = alice.Commit(ctx, store.Txn{Do: []store.Operation{store.Put("k", []byte("1"))}})
	fmt.Println(err)
	_, err = bob.Commit(ctx, store.Txn{
		If: []store.Condition{store.Absent("k")},
		Do: []store.Operation{store.Put("k", []byte("2"))},
	})
	fmt.Println(err)
	fmt.Println(recorder.Len(), recorder.Check(time.Minute))
	// Output:
	// <nil>
	// store: commit "k": conflict: expected that "k" is absent, but it is at revision 1
	// 2 <nil>
}

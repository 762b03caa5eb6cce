package audit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nslifecycle/nslifecycle/namespace/operate/audit"
	"github.com/nslifecycle/nslifecycle/store/memory"
)

// Records outlive their namespace.
func Example() {
	ctx := context.Background()
	s, err := memory.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	records, err := audit.New(s, nil)
	if err != nil {
		log.Fatal(err)
	}
	wrote, err := records.Write(ctx, audit.Record{
		Action: audit.Forcing, Namespace: "team-a", UID: "0f3c", By: "ada", Reason: "its owner was uninstalled",
		Inventory: &audit.Inventory{Objects: []audit.Object{{Resource: "widgets.example.com", Name: "w", UID: "77aa"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	list, err := records.List(ctx, "team-a") // without inventories
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range list {
		fmt.Println(r.Action, r.By, r.Reason, r.Objects, r.Inventory == nil)
	}
	whole, err := records.Get(ctx, "team-a", wrote.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(whole.Inventory.Objects)
	// Output:
	// forcing ada its owner was uninstalled 1 true
	// [{widgets.example.com w 77aa []}]
}

package ledger_test

import (
	"fmt"

	"github.com/meshtrial/meshtrial/observe/ledger"
)

// A client sent two requests to a service. The worker answered the first. It has
// no entry about the second, whose connection was reset at the client. Where did
// it fail?
func Example() {
	book := ledger.New(ledger.Options{Client: "load", Entry: "shop", Services: map[string]ledger.Station{"shop": {}}})
	book.AddClient(ledger.ClientEntry{ID: "mm-1", IntendedNS: 0, SentNS: 10, DoneNS: 900, Outcome: ledger.OutcomeOK, Status: 200})
	book.AddWorker(ledger.WorkerEntry{ID: "mm-1", Service: "shop", Pod: "shop-a", StartNS: 200, EndNS: 700, Status: 200, Ended: ledger.EndAnswered})
	book.AddClient(ledger.ClientEntry{ID: "mm-2", IntendedNS: 1000, SentNS: 1010, DoneNS: 1900, Outcome: ledger.OutcomeReset})

	account := book.Account()
	fmt.Println(account.Requests, "requests, reconciled:", account.Reconciled)
	book.Each(func(r *ledger.Request) bool {
		fmt.Println(r.ID, r.Class)
		if r.Fault != nil {
			fmt.Println("failed at", r.Fault.Hop, "of", r.Fault.Service)
		}
		return true
	})
	// Output:
	// 2 requests, reconciled: true
	// mm-1 ok
	// mm-2 failed
	// failed at network of shop
}

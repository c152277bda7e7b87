// Package ending handles the end of a command that changed something: what the
// command must revert or take down even if it was interrupted, and how long
// that may take.
package ending

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Within returns a context for reverting something after ctx may have ended: it
// has the values of ctx but not its cancellation, and ends after limit.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// Debt is something that a command must revert or take down before it ends.
type Debt struct {
	// What describes it for people: "the local lab".
	What string
	// Remedy is the command that reverts it after a crash; "" if that of
	// another debt covers it.
	Remedy string
}

// Debts are the debts of one command.
type Debts struct {
	first func()

	mu   sync.Mutex
	owed bool // whether there ever was a debt
	open []*Debt
}

// New returns an account without debts. If first is not nil, it is called once,
// for the first debt, before anything is changed.
func New(first func()) *Debts { return &Debts{first: first} }

type key struct{}

// In returns a context in which [Owe] records debts.
func (d *Debts) In(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, d) }

// Open lists the current debts, the latest first.
func (d *Debts) Open() []Debt {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Debt
	for _, debt := range slices.Backward(d.open) {
		all = append(all, *debt)
	}
	return all
}

// Owe records that the caller under ctx is about to change something. paid
// records that it has been reverted, or never will be; it may be called again.
// Without an account in ctx nothing happens.
func Owe(ctx context.Context, what, remedy string) (paid func()) {
	d, ok := ctx.Value(key{}).(*Debts)
	if !ok {
		return func() {}
	}
	debt := &Debt{What: what, Remedy: remedy}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.owed && d.first != nil {
		d.first()
	}
	d.owed = true
	d.open = append(d.open, debt)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open = slices.DeleteFunc(d.open, func(other *Debt) bool { return other == debt })
	}
}

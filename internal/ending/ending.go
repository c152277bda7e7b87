// Package ending is about the end of a command that changed something: what
// it owes, which is to be put back or taken down even when the command has
// been interrupted, and the time that this may take.
package ending

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Within returns a context in which something can be put back although ctx may
// have ended: it has the values of ctx but not its end, and ends by itself
// after limit.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// Debt is something that a command will put back or take down before it ends.
type Debt struct {
	// What it is, for people: "the local lab".
	What string
	// Remedy is the command that does it for one that died; "" where that of
	// another debt does.
	Remedy string
}

// Debts are what one command owes.
type Debts struct {
	first func()

	mu   sync.Mutex
	owed bool // ever
	open []*Debt
}

// New returns an account without debts. first, if it is not nil, is called as
// soon as there is one, before anything is changed; and never again.
func New(first func()) *Debts { return &Debts{first: first} }

type key struct{}

// In returns a context in which [Owe] notes what is owed.
func (d *Debts) In(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, d) }

// Open lists what is owed now, what came last first.
func (d *Debts) Open() []Debt {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Debt
	for _, debt := range slices.Backward(d.open) {
		all = append(all, *debt)
	}
	return all
}

// Owe notes that whoever runs under ctx is about to change something; paid
// says that it has been put back, or never will be. Where nobody keeps the
// account, nothing happens. paid may be called again.
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

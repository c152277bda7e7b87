package ledger

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// Span is a period of time. It contains the requests whose intended time lies
// in it. The zero Span is all time.
type Span struct{ FromNS, ToNS int64 }

func (s Span) holds(ns int64) bool {
	return s == Span{} || ns >= s.FromNS && ns < s.ToNS
}

// Account summarizes the outcome of the requests of a span.
type Account struct {
	// Requests counts those that the client logged. The classes add up to it.
	Requests int64           `json:"requests"`
	Classes  map[Class]int64 `json:"classes"`
	// Reconciled means that every equation holds for every request, and that
	// there are no orphans.
	Reconciled bool `json:"reconciled"`
	// Duplicates counts the client's entries after the first with the same ID.
	// Orphans counts IDs that the client never logged, only in the account of
	// all time.
	Duplicates int64 `json:"duplicates,omitempty"`
	Orphans    int64 `json:"orphans,omitempty"`

	Failed map[string]int64 `json:"failed,omitempty"` // by the client's kind of failure
	Hops   map[Hop]int64    `json:"hops,omitempty"`   // of failed and unfinished requests
	Faults []FaultCount     `json:"faults,omitempty"` // the same by service and flag, most first

	Equations []record.LedgerEquation `json:"equations"`

	// Attempts counts attempts that left the client's proxies, for Asked
	// requests.
	Asked    int64 `json:"asked"`
	Attempts int64 `json:"attempts"`
	// Hidden counts failed attempts of any proxy that were retried, and Lost
	// attempts of any proxy that never arrived.
	Hidden int64 `json:"hidden"`
	Lost   int64 `json:"lost"`
	// Unwritten counts attempts that a worker logged but its proxy did not,
	// where proxies are known to omit lines.
	Unwritten int64 `json:"unwritten,omitempty"`
	// HiddenBy counts the attempts in Hidden that appear in a log of attempts,
	// by flags or status.
	HiddenBy map[string]int64      `json:"hidden_by,omitempty"`
	Phantom  Phantom               `json:"phantom"`
	Edges    []record.ScenarioEdge `json:"edges,omitempty"`

	// Failures and Unreconciled list requests in the order in which the book
	// encountered them, up to the limit in the book's options.
	Failures     []Named `json:"failures,omitempty"`
	Unreconciled []Named `json:"unreconciled,omitempty"`

	faults map[Fault]int64
	legs   map[legKey]*record.LedgerEquation
	edges  map[edgeKey]*edge
	names  int
}

// Amplification returns attempts per request: 1 without retries, 0 without
// requests.
func (a *Account) Amplification() float64 {
	if a.Asked == 0 {
		return 0
	}
	return float64(a.Attempts) / float64(a.Asked)
}

// FaultCount is the number of requests that failed at one place in one way.
// Fault has no pod, host or detail.
type FaultCount struct {
	Fault
	Count int64 `json:"count"`
}

// Named is one request, by ID.
type Named struct {
	ID         string   `json:"id"`
	IntendedNS int64    `json:"intended_ns"`
	Outcome    string   `json:"outcome"`
	Status     int      `json:"status,omitempty"`
	Fault      *Fault   `json:"fault,omitempty"`
	Lacks      []string `json:"lacks,omitempty"`
}

// Accounts iterates over the book once and returns an account for each span.
func (b *Book) Accounts(spans ...Span) []*Account {
	return b.AccountsAt(func(c *ClientEntry) int64 { return c.IntendedNS }, spans...)
}

// AccountsAt is like Accounts, but assigns requests to spans by at instead of
// by their intended time.
func (b *Book) AccountsAt(at func(*ClientEntry) int64, spans ...Span) []*Account {
	accounts := make([]*Account, len(spans))
	for i := range accounts {
		accounts[i] = &Account{
			Classes: map[Class]int64{}, Failed: map[string]int64{}, Hops: map[Hop]int64{}, HiddenBy: map[string]int64{},
			faults: map[Fault]int64{}, legs: map[legKey]*record.LedgerEquation{}, edges: map[edgeKey]*edge{}, names: b.options.Names,
		}
	}
	b.Each(func(r *Request) bool {
		for i, span := range spans {
			if r.Client != nil && span.holds(at(r.Client)) || r.Client == nil && span == (Span{}) {
				accounts[i].add(b, r)
			}
		}
		return true
	})
	for _, a := range accounts {
		a.finish()
	}
	return accounts
}

// Account returns the account of all time.
func (b *Book) Account() *Account { return b.Accounts(Span{})[0] }

func (a *Account) add(b *Book, r *Request) {
	for i := range r.legs {
		a.addLeg(b, &r.legs[i])
	}
	for i := range r.Proxies {
		a.addEdge(&r.Proxies[i])
	}
	a.Phantom.add(b, r)
	for i := range r.Tries {
		if p := &r.Tries[i]; p.why() != "" && p.hidden(r) {
			a.HiddenBy[p.why()]++
		}
	}
	a.Hidden += int64(r.Hidden)
	a.Lost += int64(r.Lost)
	a.Unwritten += int64(r.Unwritten)
	if r.Client == nil {
		a.Orphans++
		a.name(&a.Unreconciled, Named{ID: r.ID, Lacks: r.Lacks})
		return
	}
	a.Requests++
	a.Classes[r.Class]++
	a.Duplicates += int64(r.Duplicates)
	if r.Attempts > 0 {
		a.Asked++
		a.Attempts += int64(r.Attempts)
	}
	if r.Client.Outcome != OutcomeOK && r.Client.Outcome != OutcomeUnfinished {
		a.Failed[r.Client.Outcome]++
	}
	if r.Fault != nil {
		a.Hops[r.Fault.Hop]++
		key := *r.Fault
		key.Pod, key.Host, key.Detail = "", "", ""
		a.faults[key]++
	}
	named := Named{r.ID, r.Client.IntendedNS, r.Client.Outcome, r.Client.Status, r.Fault, r.Lacks}
	if r.Class == ClassUnreconciled {
		a.name(&a.Unreconciled, named)
	}
	if r.Fault != nil && r.Client.Outcome != OutcomeUnfinished {
		a.name(&a.Failures, named)
	}
}

func (a *Account) name(list *[]Named, n Named) {
	if len(*list) < a.names {
		*list = append(*list, n)
	}
}

func (a *Account) addLeg(b *Book, l *leg) {
	e := a.legs[l.key]
	if e == nil {
		e = &record.LedgerEquation{Name: b.legName(l.key), Service: l.key.service, Lost: map[string]int64{}, Open: l.open}
		a.legs[l.key] = e
	}
	e.Left += int64(l.left)
	e.Arrived += int64(l.arrived)
	e.Missing += int64(l.missing())
	e.Surplus += int64(l.surplus())
	for _, cause := range l.gone() {
		e.Lost[cause]++
	}
}

func (a *Account) finish() {
	keys := slices.SortedFunc(maps.Keys(a.legs), func(x, y legKey) int {
		return cmp.Or(cmp.Compare(min(x.kind, legService), min(y.kind, legService)), cmp.Compare(x.service, y.service), cmp.Compare(x.kind, y.kind))
	})
	a.Reconciled = a.Classes[ClassUnreconciled] == 0 && a.Orphans == 0
	for _, key := range keys {
		e := a.legs[key]
		e.Holds = e.Missing == 0 && e.Surplus == 0
		a.Reconciled = a.Reconciled && e.Holds
		a.Equations = append(a.Equations, *e)
	}
	for fault, count := range a.faults {
		a.Faults = append(a.Faults, FaultCount{fault, count})
	}
	slices.SortFunc(a.Faults, func(x, y FaultCount) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Hop, y.Hop), cmp.Compare(x.Service, y.Service), cmp.Compare(x.Flag, y.Flag), cmp.Compare(x.Seen, y.Seen))
	})
	a.finishEdges()
	a.faults, a.legs, a.edges = nil, nil, nil
}

// quantile returns the q-quantile of sorted durations, given in microseconds,
// in nanoseconds; 0 if there are none.
func quantile(sorted []uint32, q float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return int64(sorted[max(0, min(i, len(sorted)-1))]) * 1000
}

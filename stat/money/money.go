// Package money says what the proxies of a stated mesh cost: cores and memory
// in currency per month. It is pure arithmetic on intervals. What a proxy uses
// goes in as measured, with its interval ([Use]); what the mesh is like and
// what a core costs is stated ([Mesh]); a [Bill] comes out, each of its lines
// with the interval that follows.
//
//	CPU time per request, idle cores, bytes  +  requests, hops, proxies  ->  cores, bytes
//	cores, bytes                           +  prices                   ->  money per month
//
// Everything is linear in what was measured. So the price of a difference is
// the difference of the prices, and whoever has a paired difference, which is
// surer than the two values it is of, gives that to [Mesh.Price] and has what
// the difference saves or costs.
package money

import "math"

// Value is a quantity with its 95% interval; Low <= Estimate <= High.
type Value struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Exact is a value that is stated rather than measured.
func Exact(v float64) Value { return Value{v, v, v} }

// Times multiplies by a number that is known.
func (v Value) Times(factor float64) Value {
	low, high := v.Low*factor, v.High*factor
	return Value{v.Estimate * factor, math.Min(low, high), math.Max(low, high)}
}

// Plus adds. The ends are added too, as if what makes one too high made the
// other so: that holds of values measured in the same trials, and makes the
// interval of others too wide, never too narrow.
func (v Value) Plus(w Value) Value {
	return Value{v.Estimate + w.Estimate, v.Low + w.Low, v.High + w.High}
}

// Mesh is what is paid for: a stated mesh and its prices. Study files bound each field
// (study/money.go).
type Mesh struct {
	// RPS are the requests per second that enter the mesh, all services
	// together.
	RPS float64 `json:"rps"`
	// Hops are the calls between services that each of them takes; 1 if each
	// is counted where it is served.
	Hops float64 `json:"hops"`
	// ProxiesPerHop is how many proxies a call passes: 2 with sidecars at
	// both ends. It matters to figures that are of one proxy.
	ProxiesPerHop float64 `json:"proxies_per_hop"`
	// Proxies is how many there are in all, busy or not: what each uses when
	// idle, and its memory, is paid for as often. 0: neither is counted.
	Proxies float64 `json:"proxies"`
	// Utilisation is the share of the cores paid for that is in use: at 0.5
	// twice as many are bought as are used. 1 is the cores in use alone.
	Utilisation float64 `json:"utilisation"`
	CoreMonth   float64 `json:"core_month"` // price of a core, a month
	GBMonth     float64 `json:"gb_month"`   // price of 10^9 bytes of memory, a month
	Currency    string  `json:"currency"`   // "USD"
}

// Published is the mesh of a published estimate: a million requests per second,
// two proxies per hop, 40 USD per core-month. With 0.6 CPU-seconds for a
// thousand requests a proxy it is 1,200 cores and 48,000 USD per month.
func Published() Mesh {
	return Mesh{RPS: 1e6, Hops: 1, ProxiesPerHop: 2, Utilisation: 1, CoreMonth: 40, Currency: "USD"}
}

// Use is what proxies take. Differences of uses are uses too, and may be
// negative.
type Use struct {
	// CPUPerHop is the CPU time that all proxies of one hop spend on one
	// request, in seconds; [Mesh.PerHop] makes it from that of one proxy.
	CPUPerHop Value `json:"cpu_per_hop_s"`
	// IdleCores is what one proxy uses without requests, in cores.
	IdleCores Value `json:"idle_cores"`
	// MemoryBytes of one proxy.
	MemoryBytes Value `json:"memory_bytes"`
}

// PerHop is the CPU time of a hop's proxies, from that of one proxy.
func (m Mesh) PerHop(perProxy Value) Value { return perProxy.Times(m.ProxiesPerHop) }

// Bill is what proxies need and cost. Money is a month's, in the mesh's
// currency.
type Bill struct {
	Cores       Value `json:"cores"` // in use; what is paid for is this over the utilisation
	MemoryBytes Value `json:"memory_bytes"`
	CPU         Value `json:"cpu"`
	Memory      Value `json:"memory"`
	Total       Value `json:"total"`
}

// Price is what a mesh of proxies with such a use costs.
func (m Mesh) Price(u Use) Bill {
	b := Bill{
		Cores:       u.CPUPerHop.Times(m.RPS * m.Hops).Plus(u.IdleCores.Times(m.Proxies)),
		MemoryBytes: u.MemoryBytes.Times(m.Proxies),
	}
	b.CPU = b.Cores.Times(m.CoreMonth / m.Utilisation)
	b.Memory = b.MemoryBytes.Times(m.GBMonth / 1e9)
	b.Total = b.CPU.Plus(b.Memory)
	return b
}

// RateOfOne is the requests per second that one proxy of the mesh sees, if they
// spread evenly; 0 if the mesh does not say how many proxies it has. Where a
// proxy was measured at another rate, what it uses when idle weighs
// differently on each request: then CPUPerHop wants the slope alone and
// IdleCores what is there anyway.
func (m Mesh) RateOfOne() float64 {
	if m.Proxies == 0 {
		return 0
	}
	return m.RPS * m.Hops * m.ProxiesPerHop / m.Proxies
}

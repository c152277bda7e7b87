// Package money computes the cost of the proxies of a stated mesh: cores and memory in
// currency per month. It is pure arithmetic on intervals. The inputs are the measured
// resource use of a proxy, with its interval ([Use]), and the stated size and prices of
// the mesh ([Mesh]). The output is a [Bill], each of its lines with the resulting
// interval.
//
//	CPU time per request, idle cores, bytes  +  requests, hops, proxies  ->  cores, bytes
//	cores, bytes                           +  prices                   ->  money per month
//
// Everything is linear in the measured values, so the price of a difference is the
// difference of the prices. A paired difference is more precise than its two values: pass
// it to [Mesh.Price] to get what the difference saves or costs.
package money

import "math"

// Value is a quantity with its 95% interval; Low <= Estimate <= High.
type Value struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Exact returns a value that is stated rather than measured.
func Exact(v float64) Value { return Value{v, v, v} }

// Times multiplies a value by an exact number.
func (v Value) Times(factor float64) Value {
	low, high := v.Low*factor, v.High*factor
	return Value{v.Estimate * factor, math.Min(low, high), math.Max(low, high)}
}

// Plus adds two values and the ends of their intervals, as if their errors were fully
// correlated. That is right for values measured in the same trials. It makes the interval
// of other sums too wide, never too narrow.
func (v Value) Plus(w Value) Value {
	return Value{v.Estimate + w.Estimate, v.Low + w.Low, v.High + w.High}
}

// Mesh describes the mesh to pay for and its prices. Study files bound each field
// (study/money.go).
type Mesh struct {
	// RPS is the number of requests per second that enter the mesh, over all services.
	RPS float64 `json:"rps"`
	// Hops is the number of calls between services per request; 1 if requests are counted
	// where they are served.
	Hops float64 `json:"hops"`
	// ProxiesPerHop is the number of proxies that a call passes: 2 with sidecars at both
	// ends. It applies to figures of a single proxy.
	ProxiesPerHop float64 `json:"proxies_per_hop"`
	// Proxies is the total number of proxies, busy or not. It multiplies the idle use and
	// memory of a proxy; 0 leaves both out.
	Proxies float64 `json:"proxies"`
	// Utilisation is the share of the paid cores that is in use: at 0.5 twice as many are
	// bought as are used. At 1 only cores in use are paid for.
	Utilisation float64 `json:"utilisation"`
	CoreMonth   float64 `json:"core_month"` // price of a core per month
	GBMonth     float64 `json:"gb_month"`   // price of 10^9 bytes of memory per month
	Currency    string  `json:"currency"`   // "USD"
}

// Published returns the mesh of a published estimate: a million requests per second, two
// proxies per hop, 40 USD per core-month. At 0.6 CPU-seconds per thousand requests and
// proxy it needs 1,200 cores and costs 48,000 USD per month.
func Published() Mesh {
	return Mesh{RPS: 1e6, Hops: 1, ProxiesPerHop: 2, Utilisation: 1, CoreMonth: 40, Currency: "USD"}
}

// Use is the resource use of proxies. Differences of uses are uses too, and may be
// negative.
type Use struct {
	// CPUPerHop is the CPU time that all proxies of one hop spend on one request, in
	// seconds; [Mesh.PerHop] computes it from that of one proxy.
	CPUPerHop Value `json:"cpu_per_hop_s"`
	// IdleCores is the number of cores that one proxy uses without requests.
	IdleCores Value `json:"idle_cores"`
	// MemoryBytes is the memory of one proxy.
	MemoryBytes Value `json:"memory_bytes"`
}

// PerHop returns the CPU time of a hop's proxies, given that of one proxy.
func (m Mesh) PerHop(perProxy Value) Value { return perProxy.Times(m.ProxiesPerHop) }

// Bill lists what proxies need and cost. Money is per month, in the mesh's currency.
type Bill struct {
	Cores       Value `json:"cores"` // in use; divide by the utilisation for the cores paid for
	MemoryBytes Value `json:"memory_bytes"`
	CPU         Value `json:"cpu"`
	Memory      Value `json:"memory"`
	Total       Value `json:"total"`
}

// Price returns the cost of a mesh whose proxies have the given use.
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

// RateOfOne returns the requests per second that one proxy of the mesh sees if load is
// even; 0 if the mesh does not state its number of proxies. If the proxy was measured at
// another rate, its idle use has a different share in each request. CPUPerHop should then
// be the slope alone, and IdleCores the idle use.
func (m Mesh) RateOfOne() float64 {
	if m.Proxies == 0 {
		return 0
	}
	return m.RPS * m.Hops * m.ProxiesPerHop / m.Proxies
}

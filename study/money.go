package study

import (
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/money"
)

// Findings in money, of studies that name a mesh and its prices. Each has a
// second one whose name ends in _overhead.
const (
	FindingMoneyCores  = "money_cores"            // cores that the proxies of such a mesh use
	FindingMoneyCPU    = "money_cpu"              // what those cost per month
	FindingMoneyMemory = "money_memory"           // what the proxies' memory costs per month
	FindingMoneyMonth  = "money_month"            // both
	FindingMoneyFit    = FindingMoneyCPU + "_fit" // what the CPU costs by the line fitted to it
)

// MoneyUnit is the unit of findings in money: "USD/month".
func (s *Study) MoneyUnit() string {
	if s.Money == nil {
		return finding.UnitMoney
	}
	return s.Money.Currency + "/month"
}

// PricedMesh is the mesh whose proxies findings in money are about. It is nil without a
// section money, and beside section sizing where money states prices alone: they are of the
// mesh that sizing states, and nobody stated another.
func (s *Study) PricedMesh() *money.Mesh {
	m := s.Money
	if m == nil || s.Sizing == nil {
		return m
	}
	p := money.Published()
	if m.RPS == p.RPS && m.Hops == p.Hops && m.ProxiesPerHop == p.ProxiesPerHop && m.Proxies == p.Proxies {
		return nil
	}
	return m
}

// moneySection is the section money: a mesh and its prices.
func moneySection(to **money.Mesh) Value {
	return Stated(to, money.Published, moneyFields)
}

func moneyFields(m *money.Mesh) Object {
	const most = 1e15
	return Object{Name: "money", Flow: true, Fields: []Field{
		{Name: "rps", Doc: "Requests per second that enter the mesh, all services together.", Value: Float(&m.RPS, most)},
		{Name: "hops", Doc: "Calls between services per request.", Value: Float(&m.Hops, most).Positive()},
		{Name: "proxies_per_hop", Doc: "Proxies that a call passes.", Value: Float(&m.ProxiesPerHop, most).Positive()},
		{Name: "proxies", Doc: "Total proxies, to price their idle cost and memory; 0: neither is counted.", Value: Float(&m.Proxies, most)},
		{Name: "utilisation", Doc: "Share of the paid cores in use: at 50%, twice as many are bought.", Value: Portion(&m.Utilisation).Positive().OmitZero()},
		{Name: "core_month", Doc: "Price per core-month.", Value: Float(&m.CoreMonth, most)},
		{Name: "gb_month", Doc: "Price per GB-month of memory (10^9 bytes).", Value: Float(&m.GBMonth, most)},
		{Name: "currency", Doc: "Currency of the prices, such as USD.", Value: Named(&m.Currency, reCurrency, "currency", "use one to eight letters, as USD")},
	}}
}

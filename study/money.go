package study

import (
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/money"
)

// Findings in money, for studies that name a mesh and its prices. Each has a counterpart whose name
// ends in _overhead.
const (
	FindingMoneyCores  = "money_cores"            // cores used by the proxies of such a mesh
	FindingMoneyCPU    = "money_cpu"              // monthly cost of those cores
	FindingMoneyMemory = "money_memory"           // monthly cost of the proxies' memory
	FindingMoneyMonth  = "money_month"            // sum of both
	FindingMoneyFit    = FindingMoneyCPU + "_fit" // cost of CPU by the line fitted to it
)

// MoneyUnit returns the unit of findings in money: "USD/month".
func (s *Study) MoneyUnit() string {
	if s.Money == nil {
		return finding.UnitMoney
	}
	return s.Money.Currency + "/month"
}

// PricedMesh returns the mesh whose proxies findings in money are about. It returns nil without a
// section money. It also returns nil next to a section sizing if money states prices alone: the
// prices then apply to the mesh in sizing.
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

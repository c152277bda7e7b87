package study

import (
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/money"
)

// Findings in money, of studies that name a mesh and its prices. Each has a
// second one whose name ends in _overhead.
const (
	FindingMoneyCores  = "money_cores"  // cores that the proxies of such a mesh use
	FindingMoneyCPU    = "money_cpu"    // what those cost per month
	FindingMoneyMemory = "money_memory" // what the proxies' memory costs per month
	FindingMoneyMonth  = "money_month"  // both
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
func moneySection(to **money.Mesh) statedValue[money.Mesh] {
	return statedValue[money.Mesh]{to, money.Published, moneyFields}
}

func moneyFields(m *money.Mesh) object {
	const most = 1e15
	return object{name: "money", flow: true, fields: []field{
		{name: "rps", doc: "Requests per second that enter the mesh, all services together.", value: floatValue{to: &m.RPS, high: most}},
		{name: "hops", doc: "Calls between services per request.", value: floatValue{to: &m.Hops, high: most, positive: true}},
		{name: "proxies_per_hop", doc: "Proxies that a call passes.", value: floatValue{to: &m.ProxiesPerHop, high: most, positive: true}},
		{name: "proxies", doc: "Total proxies, to price their idle cost and memory; 0: neither is counted.", value: floatValue{to: &m.Proxies, high: most}},
		{name: "utilisation", doc: "Share of the paid cores in use: at 50%, twice as many are bought.", value: portionValue{to: &m.Utilisation, positive: true}},
		{name: "core_month", doc: "Price per core-month.", value: floatValue{to: &m.CoreMonth, high: most}},
		{name: "gb_month", doc: "Price per GB-month of memory (10^9 bytes).", value: floatValue{to: &m.GBMonth, high: most}},
		{name: "currency", doc: "Currency of the prices, such as USD.", value: textValue{to: &m.Currency, pattern: reCurrency, noun: "currency", hint: "use one to eight letters, as USD"}},
	}}
}

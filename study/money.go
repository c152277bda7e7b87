package study

import (
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/capacity/money"
	"github.com/meshtrial/meshtrial/finding"
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

// moneyValue is the section money.
type moneyValue struct{ to **money.Mesh }

func (v moneyValue) object(m *money.Mesh) object {
	const most = 1e15
	return object{name: "money", flow: true, fields: []field{
		{name: "rps", doc: "Requests per second that enter the mesh, all services together.", value: floatValue{to: &m.RPS, high: most}},
		{name: "hops", doc: "Calls between services per request.", value: floatValue{to: &m.Hops, high: most}},
		{name: "proxies_per_hop", doc: "Proxies that a call passes.", value: floatValue{to: &m.ProxiesPerHop, high: most}},
		{name: "proxies", doc: "Total proxies, to price their idle cost and memory; 0: neither is counted.", value: floatValue{to: &m.Proxies, high: most}},
		{name: "utilisation", doc: "Share of the paid cores in use: at 50%, twice as many are bought.", value: ratioValue{(*Ratio)(&m.Utilisation)}},
		{name: "core_month", doc: "Price per core-month.", value: floatValue{to: &m.CoreMonth, high: most}},
		{name: "gb_month", doc: "Price per GB-month of memory (10^9 bytes).", value: floatValue{to: &m.GBMonth, high: most}},
		{name: "currency", doc: "Currency of the prices, such as USD.", value: textValue{to: &m.Currency, pattern: reCurrency, hint: "one to eight letters, as USD"}},
	}}
}

func (v moneyValue) decode(d *decoder, n *node) {
	m := money.Published()
	before := len(d.errs)
	v.object(&m).decode(d, n)
	if len(d.errs) > before {
		return
	}
	if err := m.Check(); err != nil {
		name, _, _ := strings.Cut(err.Error(), " ")
		pos := n.pos
		if field := n.get(name); field != nil {
			pos = field.pos
		}
		d.fail(pos, "", "%v", err)
		return
	}
	*v.to = &m
}

func (v moneyValue) encode() *node {
	if *v.to == nil {
		return nil
	}
	m := **v.to
	return v.object(&m).encode()
}

func (v moneyValue) schema() *jsonschema.Schema {
	m := money.Published()
	return v.object(&m).schema()
}

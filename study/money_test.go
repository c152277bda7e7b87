package study

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/stat/money"
)

const withMoney = `
name: cost
question: What does it cost?
factors: {sidecars: [none, both]}
`

func TestMoneySection(t *testing.T) {
	for _, c := range []struct {
		name, text string
		sets       []string
		want       *money.Mesh
		fails      string
	}{
		{name: "none"},
		{name: "defaults", text: "money: {}\n", want: &money.Mesh{RPS: 1e6, Hops: 1, ProxiesPerHop: 2, Utilisation: 1, CoreMonth: 40, Currency: "USD"}},
		{name: "all", text: "money: {rps: 5000, hops: 3, proxies_per_hop: 1, proxies: 20, utilisation: 50%, core_month: 31.5, gb_month: 4, currency: EUR}\n",
			want: &money.Mesh{RPS: 5000, Hops: 3, ProxiesPerHop: 1, Proxies: 20, Utilisation: 0.5, CoreMonth: 31.5, GBMonth: 4, Currency: "EUR"}},
		{name: "by flags", sets: []string{"money.rps=70000", "money.core_month=25"}, want: &money.Mesh{RPS: 70000, Hops: 1, ProxiesPerHop: 2, Utilisation: 1, CoreMonth: 25, Currency: "USD"}},
		{name: "free", text: "money: {rps: 0, core_month: 0}\n", want: &money.Mesh{Hops: 1, ProxiesPerHop: 2, Utilisation: 1, Currency: "USD"}},
		{name: "no hop", text: "money: {hops: 0}\n", fails: "x.yaml:5:15: 0 is too small: it must be more than 0"},
		{name: "no proxy", text: "money: {proxies_per_hop: 0}\n", fails: "0 is too small: it must be more than 0"},
		{name: "nothing in use", text: "money: {utilisation: 0%}\n", fails: "0% is too small: it must be more than 0"},
		{name: "more than 100%", text: "money: {utilisation: 120%}\n", fails: "120% is more than 100%"},
		{name: "too much", text: "money: {gb_month: 2000000000000000}\n", fails: "2000000000000000 is too large"},
		{name: "negative", text: "money: {rps: -1}\n", fails: "-1"},
		{name: "no currency", text: "money: {currency: '$'}\n", fails: "as USD"},
		{name: "unknown", text: "money: {price: 3}\n", fails: `unknown field "price"`},
	} {
		s, err := Parse([]byte(withMoney+c.text), "study.yaml", c.sets)
		if answered(t, withMoney+c.text, c.sets, "", c.fails); err != nil {
			continue
		}
		if (s.Money == nil) != (c.want == nil) || s.Money != nil && *s.Money != *c.want {
			t.Errorf("%s: %+v", c.name, s.Money)
		}
		again, err := Parse(s.Marshal(), "resolved.yaml", nil)
		if err != nil || (again.Money == nil) != (s.Money == nil) || s.Money != nil && *again.Money != *s.Money {
			t.Errorf("%s: written and read again: %+v, %v", c.name, again, err)
		}
	}
}

func TestPublishedMoneyIsInTheStudysCurrency(t *testing.T) {
	text := withMoney + "money: {currency: EUR}\npublished: [{source: s, claim: c, finding: money_month, cell: {sidecars: both}, figure: 50000, unit: EUR/month}]\n"
	s, err := Parse([]byte(text), "study.yaml", nil)
	if err != nil || s.Published[0].Unit != "EUR/month" || s.Published[0].Figure != 50000 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Parse([]byte(strings.Replace(text, "unit: EUR", "unit: USD", 1)), "study.yaml", nil); err == nil {
		t.Error("a figure in another currency passes")
	}
}

// A shipped file cannot be edited: if a flag removes the prices, or changes their currency, figures
// in money are dropped, and no others.
func TestPublishedMoneyGoesWithItsPrices(t *testing.T) {
	text := withMoney + `money: {currency: USD}
published:
  - {source: s, claim: money, finding: money_month, cell: {sidecars: both}, figure: 50000, unit: USD/month}
  - {source: s, claim: latency, finding: latency_p50, cell: {sidecars: both}, figure: 3, unit: ms}
`
	for set, want := range map[string]int{"money=none": 1, "money.currency=EUR": 1, "money={currency: EUR}": 1, "money.core_month=25": 2, "window=3s": 2} {
		s, err := Parse([]byte(text), "study.yaml", []string{set})
		if err != nil || len(s.Published) != want || s.Published[want-1].Claim != "latency" {
			t.Errorf("%s: %+v, %v", set, s, err)
			continue
		}
		if again, err := Parse(s.Marshal(), "resolved.yaml", nil); err != nil || len(again.Published) != want {
			t.Errorf("%s: written and read again: %v", set, err)
		}
	}
	if _, err := Parse([]byte(strings.Replace(text, "unit: ms", "unit: USD/month", 1)), "study.yaml", []string{"money=none"}); err == nil {
		t.Error("a latency in money passes")
	}
}

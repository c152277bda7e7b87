package analysis

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/stat/money"
)

// MoneyWords says which mesh the findings in money refer to, and at which prices; "" if there
// are none. shared: requests of some cells pass shared proxies.
func MoneyWords(m *money.Mesh, shared bool) string {
	if m == nil {
		return ""
	}
	hops := "each one call between services"
	if m.Hops != 1 {
		hops = "each " + words.Grouped(m.Hops) + " calls between services"
	}
	s := fmt.Sprintf("%s requests per second, %s, %s proxies per call at the cell's average cost, %s %s per core-month", words.Grouped(m.RPS), hops, words.Grouped(m.ProxiesPerHop), words.Grouped(m.CoreMonth), m.Currency)
	if m.Utilisation < 1 {
		s += fmt.Sprintf(" with %s of the cores in use", words.Percent(m.Utilisation))
	}
	if m.Proxies > 0 {
		s += fmt.Sprintf("; %s proxies in all, %s requests per second at each", words.Grouped(m.Proxies), words.Grouped(math.Round(m.RateOfOne())))
		if m.GBMonth > 0 {
			s += fmt.Sprintf(", %s %s per GB-month of memory", words.Grouped(m.GBMonth), m.Currency)
		}
	}
	if shared {
		s += " (where pods share proxies, a call costs what its own path did, and their memory is not priced)"
	}
	return s
}

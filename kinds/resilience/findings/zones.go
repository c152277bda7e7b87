package findings

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
)

// places maps pods and addresses to zones.
type places struct{ pod, address map[string]string }

// places returns the zones of the trial's pods; nil if they are unknown.
func (s *trialScenario) places() *places {
	out := &places{map[string]string{}, map[string]string{}}
	for _, p := range s.trial.Scenario.Pods {
		if p.Zone != "" {
			out.pod[p.Name], out.address[p.IP] = p.Zone, p.Zone
		}
	}
	if len(out.pod) == 0 {
		return nil
	}
	return out
}

// of returns the zone of an endpoint; "" if unknown.
func (p *places) of(host string) string {
	at, err := netip.ParseAddrPort(strings.TrimPrefix(host, "tcp://"))
	if err != nil {
		return ""
	}
	return p.address[at.Addr().String()]
}

// countZones counts, for each window, which zones answered calls, and when callers turned away from
// zones that steps cut off.
func (s *trialScenario) countZones(book *ledger.Book) {
	known := s.places()
	if known == nil {
		return
	}
	zero := s.trial.Scenario.StartNS
	book.Each(func(r *ledger.Request) bool {
		if r.Client == nil {
			return true
		}
		at := s.moment(r.Client)
		i := len(s.bounds) - 1
		for i > 0 && s.bounds[i].at > at {
			i--
		}
		for j := range r.Proxies {
			p := &r.Proxies[j]
			s.shift(known, p, zero)
			from, to := known.pod[p.Pod], known.of(p.Host)
			if p.Side != ledger.SideClient || from == "" || to == "" || p.Status < 200 || p.Status > 299 {
				continue
			}
			addZone(&s.windows[i], from, to)
			addZone(&s.total, from, to)
		}
		for j := range r.Tries {
			s.shift(known, &r.Tries[j], zero)
		}
		return true
	})
}

// addZone counts an answered call in a window.
func addZone(w *record.ScenarioWindow, from, to string) {
	if w.Zones == nil {
		w.Zones = map[string]int64{}
	}
	w.Zones[to]++
	w.Zoned++
	if from != to {
		w.CrossZone++
	}
}

// shift notes an attempt to a zone while a step cuts it off.
func (s *trialScenario) shift(known *places, p *ledger.ProxyEntry, zero int64) {
	from, to := known.pod[p.Pod], known.of(p.Host)
	if p.Side != ledger.SideClient || to == "" || from == to && p.Service != fault.LoadService {
		return
	}
	for i := range s.steps {
		one := &s.steps[i]
		if at := p.StartNS - zero; one.Op == fault.ZoneKind && one.Object == to && at >= one.begin && at < cmp.Or(one.end, s.length) {
			us := math.Max(0, float64(at-one.begin)/1e3)
			if one.ShiftUS == nil || *one.ShiftUS < us {
				one.ShiftUS = &us
			}
		}
	}
}

// shifted returns how long callers took to turn away from a zone: infinite if they still called it
// when the step ended. It returns nil for other steps.
func (s *trialScenario) shifted(one timed) *float64 {
	us := one.ShiftUS
	if us == nil {
		return nil
	}
	lasted := cmp.Or(one.end, s.length) - one.begin
	if float64(lasted)/1e3-*us < float64(min(secondNS, lasted/4))/1e3 {
		never := math.Inf(1)
		return &never
	}
	return us
}

// crossZone returns the share of answered calls that left their caller's zone; NaN if zones are
// unknown.
func crossZone(s *trialScenario) float64 {
	if s.total.Zoned == 0 {
		return math.NaN()
	}
	return float64(s.total.CrossZone) / float64(s.total.Zoned)
}

// zoneNames returns the zones of the trial's pods, in order.
func (s *trialScenario) zoneNames() []string {
	var out []string
	for _, p := range s.trial.Scenario.Pods {
		if p.Zone != "" {
			out = append(out, p.Zone)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

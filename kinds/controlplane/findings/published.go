package findings

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// controlWords says what a published figure of a control plane and ours have
// to do with each other: whether they change alike from the baseline, and
// what is counted differently.
func controlWords(c *analysis.Beside, p study.Published, f *record.Finding, cell int) []string {
	var out []string
	if s := sameChange(c, p, f, cell); s != "" {
		out = append(out, s)
	}
	switch {
	case p.Finding == "reported_convergence_p99" || p.Finding == "convergence_p99" && p.Figure < 1e5:
		out = append(out, hiddenWords(c, cell)...)
	case p.Finding == "pushes":
		if s := controlSummary(c.O, c.O.Valid(cell)); s.Committed > 0 && s.Proxies+s.Gateways+s.Ztunnels > 0 {
			per := f.Estimate * float64(len(c.O.Valid(cell))) / float64(s.Committed)
			out = append(out, fmt.Sprintf("Istiod counts a push for each proxy and type of resource: %s for each change committed, with %d proxies.",
				words.Figures(per), s.Proxies+s.Gateways+s.Ztunnels+s.RealProxies))
		}
	case p.Finding == "join_time":
		out = append(out, "Both span a new proxy's first request to istiod's last push to it. The published figure is of a pod with an Envoy, which builds what it has before it asks for more, and includes the pushes that the pod's own arrival triggers; ours is of istiod and the wire alone, for a pod known for a while.")
	case strings.HasPrefix(p.Finding, "join_bytes"):
		out = append(out, "The published figure is the size of the resources as istiod logs them, ours that of the messages they came in.")
	case p.Finding == "config_dump_bytes":
		out = append(out, "Both are config dumps: JSON with the bootstrap, without endpoints. Other versions of Envoy and Istio print more, or less, of the same.")
	case p.Finding == "sidecar_cpu_idle", p.Finding == "sidecar_cpu_changing", p.Finding == "sidecar_memory_idle", p.Finding == "sidecar_memory_changing":
		out = append(out, idleWords(c, p, f, cell)...)
	case strings.HasPrefix(p.Finding, "config_bytes"), strings.HasPrefix(p.Finding, "scope_config_bytes"):
		out = append(out, "The published figure is the size of a config dump, JSON with the bootstrap in it; ours is the configuration as it comes over the wire.")
	}
	return out
}

// sameChange sets the published ratio of a cell to its baseline beside ours.
func sameChange(c *analysis.Beside, p study.Published, f *record.Finding, cell int) string {
	base, ok := c.O.Baseline(cell)
	if !ok || strings.HasSuffix(p.Finding, "_overhead") {
		return ""
	}
	g := c.Find(p.Finding, base)
	if g == nil || g.Verdict != record.VerdictMeasured || !(g.Estimate > 0) || !(f.Estimate > 0) {
		return ""
	}
	for _, q := range c.O.Plan.Study.Published {
		if q.Source != p.Source || q.Finding != p.Finding || !(q.Figure > 0) || !c.O.Plan.Study.Kind.Matches(c.O.Plan.Cells[base], q.Cell) {
			continue
		}
		published, ours := p.Figure/q.Figure, f.Estimate/g.Estimate
		agree := "The direction differs."
		switch {
		case (published < 0.95) == (ours < 0.95) && (published > 1.05) == (ours > 1.05):
			agree = "The direction agrees."
		case analysis.Overlap(f, g):
			agree = "Ours lie within each other's intervals."
		}
		return fmt.Sprintf("Against %s the published figure %s, ours %s. %s", c.O.Plan.Label(c.O.Plan.Cells[base]), words.Fold(published), words.Fold(ours), agree)
	}
	return ""
}

// hiddenWords says what istiod's own figure leaves out.
func hiddenWords(c *analysis.Beside, cell int) []string {
	var out []string
	s := controlSummary(c.O, c.O.Valid(cell))
	if n := s.ReportedFirstTrials; n > 0 {
		where := ""
		if n < s.ReportedTrials {
			where = fmt.Sprintf(" This applies to %d of %d trials here.", n, s.ReportedTrials)
		}
		out = append(out, "Such a figure comes from a histogram whose first bucket ends at 100 ms; inside it the value is interpolated and only says \"below\"."+where)
	}
	whole, hidden := c.Find("convergence_p99", cell), c.Find("hidden_convergence_p99", cell)
	if whole == nil || hidden == nil || whole.Verdict != record.VerdictMeasured || hidden.Verdict != record.VerdictMeasured {
		return out
	}
	took := words.Quantity(whole.Estimate, whole.Unit)
	switch {
	case hidden.Low > 0:
		out = append(out, fmt.Sprintf("Istiod's clock starts after debouncing and stops on send; from commit to ACK the p99 is %s, %s of it hidden.",
			took, words.Quantity(hidden.Estimate, hidden.Unit)))
	case hidden.High < 0:
		out = append(out, fmt.Sprintf("From commit to ACK the p99 is %s, less than istiod's figure, which is interpolated across a wide histogram bucket.", took))
	default:
		out = append(out, fmt.Sprintf("Istiod's clock starts after debouncing and stops on send; from commit to ACK the p99 is %s. Whether istiod's figure hides any of it is inconclusive here: the two differ by %s to %s.",
			took, words.Quantity(hidden.Low, hidden.Unit), words.Quantity(hidden.High, hidden.Unit)))
	}
	return out
}

// missedShare is the share of the change-proxy pairs that needed
// it which never had it, or never acknowledged it, over some trials and a group.
func missedShare(o *analysis.Observations, trials []*record.Trial, of group) float64 {
	pairs, missed, unacked := 0, 0, 0
	for _, t := range trials {
		c := of.of(converged(o, t))
		pairs, missed = pairs+c.pairs, missed+c.missed
		unacked += c.unacked
	}
	if pairs+missed == 0 {
		return 0
	}
	return float64(missed+unacked) / float64(pairs+missed)
}

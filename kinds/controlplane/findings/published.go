package findings

import (
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// controlNotes relate a published control-plane figure to ours: whether both change alike from the
// baseline, and what is counted differently.
func controlNotes(c *analysis.Beside, p study.Published, f *record.Finding, cell int) []note.Note {
	out := sameChange(c, p, f, cell)
	switch {
	case p.Finding == "reported_convergence_p99" || p.Finding == "convergence_p99" && p.Figure < 1e5:
		out = append(out, hiddenNotes(c, cell)...)
	case p.Finding == "pushes":
		if s := controlSummary(c.O, c.O.Valid(cell)); s.Committed > 0 && s.Proxies+s.Gateways+s.Ztunnels > 0 {
			per := f.Estimate * float64(len(c.O.Valid(cell))) / float64(s.Committed)
			out = append(out, notePushesCounted.Of(words.Figures(per), s.Proxies+s.Gateways+s.Ztunnels+s.RealProxies))
		}
	case p.Finding == "join_time":
		out = append(out, noteJoinTime.Of())
	case strings.HasPrefix(p.Finding, "join_bytes"):
		out = append(out, noteJoinBytes.Of())
	case p.Finding == "config_dump_bytes":
		out = append(out, noteConfigDumps.Of())
	case p.Finding == "sidecar_cpu_idle", p.Finding == "sidecar_cpu_changing", p.Finding == "sidecar_memory_idle", p.Finding == "sidecar_memory_changing":
		out = append(out, idleNotes(c, p, f, cell)...)
	case strings.HasPrefix(p.Finding, "config_bytes"), strings.HasPrefix(p.Finding, "scope_config_bytes"):
		out = append(out, noteConfigBytes.Of())
	}
	return out
}

// sameChange compares the published ratio of a cell to its baseline with ours.
func sameChange(c *analysis.Beside, p study.Published, f *record.Finding, cell int) []note.Note {
	base, ok := c.O.Baseline(cell)
	if !ok || strings.HasSuffix(p.Finding, "_overhead") {
		return nil
	}
	g := c.Find(p.Finding, base)
	if g == nil || g.Verdict != record.VerdictMeasured || !(g.Estimate > 0) || !(f.Estimate > 0) {
		return nil
	}
	for _, q := range c.O.Plan.Study.Published {
		if q.Source != p.Source || q.Finding != p.Finding || !(q.Figure > 0) || !c.O.Plan.Study.Kind.Matches(c.O.Plan.Cells[base], q.Cell) {
			continue
		}
		published, ours := p.Figure/q.Figure, f.Estimate/g.Estimate
		kind := noteOtherDirection
		switch {
		case (published < 0.95) == (ours < 0.95) && (published > 1.05) == (ours > 1.05):
			kind = noteSameDirection
		case analysis.Overlap(f, g):
			kind = noteNoDirection
		}
		return []note.Note{kind.Of(c.O.Plan.Label(c.O.Plan.Cells[base]), words.Fold(published), words.Fold(ours))}
	}
	return nil
}

// hiddenNotes state what istiod's own figure omits.
func hiddenNotes(c *analysis.Beside, cell int) []note.Note {
	var out []note.Note
	switch n, _ := inFirstBucket(c.O.Valid(cell)); {
	case n > 0 && n < len(c.O.Valid(cell)):
		out = append(out, noteBucketed.Of(n, len(c.O.Valid(cell))))
	case n > 0:
		out = append(out, noteBucketed.Of(nil, nil))
	}
	whole, hidden := c.Find("convergence_p99", cell), c.Find("hidden_convergence_p99", cell)
	if whole == nil || hidden == nil || whole.Verdict != record.VerdictMeasured || hidden.Verdict != record.VerdictMeasured {
		return out
	}
	took := words.Quantity(whole.Estimate, whole.Unit)
	switch {
	case hidden.Low > 0:
		out = append(out, noteHidden.Of(took, words.Quantity(hidden.Estimate, hidden.Unit)))
	case hidden.High < 0:
		out = append(out, noteBelowReported.Of(took))
	default:
		out = append(out, noteHiddenUnsure.Of(took, words.Quantity(hidden.Low, hidden.Unit), words.Quantity(hidden.High, hidden.Unit)))
	}
	return out
}

// missedShare returns the share of change-proxy pairs in which the proxy needed the change and
// never had or never acknowledged it, over some trials and a group.
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

package findings

import (
	"strings"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// countedOtherwise lists what published figures of some findings count, unlike ours.
var countedOtherwise = []struct {
	findings string // prefix of their names
	says     *note.Kind
}{
	{"join_time", noteJoinTime}, {"join_bytes", noteJoinBytes}, {"config_dump_bytes", noteConfigDumps},
	{"config_bytes", noteConfigBytes}, {"scope_config_bytes", noteConfigBytes},
	{"sidecar_cpu_idle", notePriceOfRequests}, {"sidecar_cpu_changing", notePriceOfRequests}, {"sidecar_memory", noteMemoryOfPod},
}

// firstBucketUS is where the first bucket of istiod's histogram of convergence times ends, in
// microseconds (pilot_proxy_convergence_time).
const firstBucketUS = 1e5

// controlNotes relate a published control-plane figure to ours: whether both change alike from the
// baseline, and what is counted differently.
func controlNotes(c *analysis.Beside, p study.Published, f *record.Finding, cell int) []note.Note {
	out := sameChange(c, p, f, cell)
	if strings.HasSuffix(p.Finding, "convergence_p99") && p.Figure < firstBucketUS {
		out = append(out, noteFirstBucket.Of())
	}
	for _, other := range countedOtherwise {
		if strings.HasPrefix(p.Finding, other.findings) {
			out = append(out, other.says.Of())
		}
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

package analysis_test

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/money"
	"github.com/meshtrial/meshtrial/study"
)

// Every finding that is a number for each trial has a measure that computes it,
// every other has a source, and nothing undefined is computed.
func TestFindingsHaveSources(t *testing.T) {
	mesh := money.Published()
	mesh.Proxies, mesh.GBMonth = 10, 1
	for _, p := range study.Kinds() {
		s := &study.Study{Kind: p, Measures: p.Measures(), Money: &mesh}
		switch p {
		case study.ControlPlane:
			s.Section = &controlplane.Control{Traffic: &controlplane.Traffic{}}
		case resilience.Kind:
			continue // tested in its own package
		}
		var computed []string
		for _, m := range analysis.Defined(s, kinds.Of(s).Measures(s)) {
			if slices.Contains(computed, m.Name) {
				t.Errorf("%s: %s is computed twice", p, m.Name)
			}
			computed = append(computed, m.Name)
		}
		sources := map[finding.Source]int{}
		for _, source := range kinds.Of(s).Sources {
			sources[source.Of] = 0
		}
		for _, d := range p.Findings().All() {
			n, known := sources[d.Source]
			switch {
			case d.Difference:
			case d.Source == finding.FromTrials && !slices.Contains(computed, d.Name):
				t.Errorf("%s: no measure computes %s", p, d.Name)
			case d.Source != finding.FromTrials && !known:
				t.Errorf("%s: nothing makes %s", p, d.Name)
			case d.Source != finding.FromTrials:
				sources[d.Source] = n + 1
			}
		}
		for source, n := range sources {
			if n == 0 {
				t.Errorf("%s: no finding comes from %s", p, source)
			}
		}
	}
}

// kinds lists all kinds.
var kinds = analyses.All()

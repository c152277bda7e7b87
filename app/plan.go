package app

import (
	"fmt"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/meshes"
	"github.com/meshtrial/meshtrial/study"
)

// CheckedPlan plans a study and reports every mistake that can be found without starting
// anything.
func CheckedPlan(s *study.Study, seed uint64) (*study.Plan, error) {
	p, err := study.NewPlan(s, seed)
	if err != nil {
		return nil, errs.WithCode(err, errs.CodeUsage)
	}
	if err := analyses.All().CheckStudy(s); err != nil {
		return nil, err
	}
	return p, kinds.Of(s).Trial.Check(p)
}

// otherPods is the number of pods that the lab and a run have in addition to those of the study:
// DNS, the observer, the simulated sidecars, a load generator, and terminating pods.
const otherPods = 20

// fitsNodes returns an error for a control-plane study with more real pods than the nodes of the
// lab on this machine can hold.
func fitsNodes(p *study.Plan, nodes int) error {
	if p.Study.Kind != study.ControlPlane {
		return nil
	}
	takes, who := nodes*local.MaxPods-otherPods, "the one node of the lab on this machine takes"
	if nodes > 1 {
		who = fmt.Sprintf("the %d nodes of the lab on this machine take", nodes)
	}
	for _, cell := range p.Cells {
		l, err := controlplane.LevelsOf(cell)
		if err != nil {
			return err
		}
		pods := l.RealPods + l.IstiodReplicas
		if t := controlplane.Of(p.Study).Traffic; t != nil {
			pods += t.Endpoints
		}
		if pods > takes {
			return p.Study.Place(controlplane.FactorRealPods, controlplane.FactorIstiodReplicas).Errorf("ask for fewer, or run it in a cluster: --lab cluster",
				"cell %s has %d real pods, and %s %d", p.Label(cell), pods, who, takes)
		}
	}
	return nil
}

// PlanNeeds returns what a plan needs that some labs or clusters lack.
func PlanNeeds(p *study.Plan) (out []mesh.Extra) {
	for _, kit := range meshes.Kits {
		if kit.Extras != nil {
			out = append(out, kit.Extras(p)...)
		}
	}
	return out
}

// PlanNote is a remark on a plan. It does not prevent a run.
type PlanNote struct {
	Text string `json:"note"`
	Hint string `json:"hint,omitempty"` // what to do about it
}

func (n PlanNote) String() string {
	if n.Hint == "" {
		return "note: " + n.Text
	}
	return "note: " + n.Text + "\n  hint: " + n.Hint
}

// levelNotes returns notes on levels of a study that have no effect and on comparisons that vary
// more than one factor. The result is never nil.
func levelNotes(p *study.Plan) []PlanNote {
	out := []PlanNote{}
	for _, err := range p.Notes() {
		out = append(out, PlanNote{err.Error(), errs.Hint(err)})
	}
	return out
}

// PlanNotes returns a plan's notes: [levelNotes], whether the plan fits the lab on this machine,
// whether its time limit suffices, and periods that could resonate. The result is never nil.
func PlanNotes(p *study.Plan) []PlanNote {
	out := levelNotes(p)
	if err := (&RunOptions{}).fitsLocal(p); err != nil {
		out = append(out, PlanNote{err.Error(), errs.Hint(err)})
	}
	if e := p.Estimate(); e.Fewest > 0 {
		out = append(out, limitNote(p.Study, e))
	}
	for _, n := range p.Warnings() {
		out = append(out, PlanNote{Text: n.String()})
	}
	return out
}

// limitNote returns a note that a study's limit leaves less time than its minimum number of
// blocks takes.
func limitNote(s *study.Study, e study.Estimate) PlanNote {
	says, hint := fmt.Sprintf("blocks.limit, %s, ", s.Blocks.Limit), fmt.Sprintf("--set blocks.limit=%dm, or longer, as pods take time to start", int(e.Fewest.Minutes())+1)
	if s.Tune != nil {
		return PlanNote{says + "leaves less time than the shortest tuning takes, two blocks and the comparison", hint}
	}
	blocks := words.Plural(e.Fits, "block")
	if e.Fits == 0 {
		blocks = "less than a block"
	}
	says += "leaves time for " + blocks
	if len(s.Search) > 0 {
		says += " if the search climbs to its last level"
	}
	says += fmt.Sprintf("; blocks.min is %d", s.Blocks.Min)
	if e.Fits < 2 && s.Blocks.Min > 1 {
		says += ", and an interval needs 2"
	}
	return PlanNote{says, hint}
}

package cli

import (
	"fmt"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/study"
)

// checkedPlan is a study's plan, with whatever is wrong with it that can be
// found without starting anything.
func checkedPlan(s *study.Study, seed uint64) (*study.Plan, error) {
	p, err := study.NewPlan(s, seed)
	if err != nil {
		return nil, errs.WithCode(err, errs.CodeUsage)
	}
	if err := analyses.All().CheckStudy(s); err != nil {
		return nil, err
	}
	return p, kinds.Of(s).Trial.Check(p)
}

// otherPods is how many pods the lab and a run have beside those that a study
// asks for: DNS, the observer, the simulated sidecars, a load generator and
// those that are on their way out.
const otherPods = 20

// fitsNodes says that a study of the control plane has more real pods than
// the nodes of the lab on this machine take. What a cluster takes is not
// known before it is asked.
func fitsNodes(p *study.Plan, nodes int) error {
	if p.Study.Kind != study.ControlPlane {
		return nil
	}
	takes, who := nodes*local.MaxPods-otherPods, "the one node of the lab on this machine takes"
	if nodes > 1 {
		who = fmt.Sprintf("the %d nodes of the lab on this machine take", nodes)
	}
	for _, cell := range p.Cells {
		l, err := study.ControlOf(cell)
		if err != nil {
			return err
		}
		pods := l.RealPods + l.IstiodReplicas
		if t := p.Study.Control.Traffic; t != nil {
			pods += t.Endpoints
		}
		if pods > takes {
			return p.Study.Place(study.FactorRealPods, study.FactorIstiodReplicas).Errorf("ask for fewer, or run it in a cluster: --lab cluster",
				"cell %s has %d real pods, and %s %d", p.Label(cell), pods, who, takes)
		}
	}
	return nil
}

// planNeed is a mesh or definitions that a plan needs and that not every lab or cluster has.
type planNeed struct{ name, words string }

// planNeeds are all of them.
func planNeeds(p *study.Plan) (out []planNeed) {
	if planAmbient(p) {
		out = append(out, planNeed{"ambient", "an ambient mesh: --ztunnel DIR in a lab on this machine"})
	}
	if planLinkerd(p) {
		out = append(out, planNeed{"linkerd", "Linkerd: --linkerd DIR in a lab on this machine"})
	}
	if p.GatewayAPI() {
		out = append(out, planNeed{"gateway-api", "the Gateway API: a lab that the run starts has it"})
	}
	return out
}

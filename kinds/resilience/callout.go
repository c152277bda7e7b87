package resilience

import (
	"fmt"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
)

// checkCallouts finds levels of the factor callout that name no service that could answer.
func checkCallouts(d *study.Decoder, p *study.Plan) {
	c := Of(p.Study)
	names := make([]string, len(c.Graph.Services))
	for i, one := range c.Graph.Services {
		names[i] = one.Name
	}
	for _, cell := range p.Cells {
		set := study.ParseSettings(cell[study.FactorCallout])
		if set == nil {
			continue
		}
		fail := func(code study.Code, hint, format string, args ...any) {
			d.Fail(p.Study.Place(study.FactorCallout), code, hint, "cell %s: callout: %s", p.Label(cell), fmt.Sprintf(format, args...))
		}
		to, ok := c.Graph.Service(set["to"])
		entry, _ := c.Graph.Service(c.Entry)
		speaks := study.CalloutProtocol(set["filter"])
		switch {
		case !ok:
			fail(study.CodeUnknown, errs.Suggest(set["to"], names), "there is no service %q", set["to"])
		case to.Name == c.Entry:
			fail(study.CodeConflict, "name another service", "%s cannot ask itself", to.Name)
		case !entry.Sidecar:
			fail(study.CodeConflict, "remove sidecar: false from "+entry.Name, "%s has no sidecar that could ask", entry.Name)
		case to.Sidecar:
			fail(study.CodeConflict, "add sidecar: false to "+to.Name, "the filter asks in plain text, which the sidecar of %s may reject", to.Name)
		case to.Protocol != speaks:
			fail(study.CodeConflict, fmt.Sprintf("add protocol: %s to %s", speaks, to.Name), "the filter asks over %s, and %s speaks %s", speaks, to.Name, to.Protocol)
		default:
			continue
		}
		return
	}
}

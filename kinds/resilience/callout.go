package resilience

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
)

const calloutExample = "filter=ext-authz-grpc to=checker fail=closed timeout=250ms"

func calloutLevel(s string) (string, *study.Error) {
	one := func(of ...string) func(string) (string, *study.Error) {
		return func(s string) (string, *study.Error) {
			if !slices.Contains(of, s) {
				return "", study.Complain(study.CodeUnknown, errs.Suggest(s, of), "%q is unknown", study.Clip(s, 40))
			}
			return s, nil
		}
	}
	name := func(s string) (string, *study.Error) {
		if !study.NamePattern.MatchString(s) {
			return "", study.Complain(study.CodeInvalid, "use the name of a service of the graph", "invalid name %q", study.Clip(s, 40))
		}
		return s, nil
	}
	out, c := settingsLevel(s, calloutExample,
		setting{"filter", one(study.Callouts()...)}, setting{"to", name}, setting{"fail", one(study.FailOpen, study.FailClosed)}, setting{"timeout", timeoutLevel})
	if given := study.ParseSettings(out); c == nil && given != nil && (given["filter"] == "" || given["to"] == "") {
		return "", study.Complain(study.CodeMissing, "as "+calloutExample, "filter and to are required")
	}
	return out, c
}

// checkCallouts finds levels of the factor callout that name no service that could answer.
func checkCallouts(d *study.Decoder, p *study.Plan) {
	c := Of(p.Study)
	for _, cell := range p.Cells {
		set := study.ParseSettings(cell[study.FactorCallout])
		if set["filter"] == "" {
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
			fail(study.CodeUnknown, errs.Suggest(set["to"], c.Names()), "there is no service %q", set["to"])
		case to.Name == c.Entry:
			fail(study.CodeConflict, "name another service", "%s cannot ask itself", to.Name)
		case entry.Gateway:
			fail(study.CodeConflict, "leave the gateway or the callout out", "the filter is that of a sidecar, and %s is a gateway", entry.Name)
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

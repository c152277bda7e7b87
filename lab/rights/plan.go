package rights

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// When reports whether a plan needs a right.
type When func(*study.Plan) bool

func always(*study.Plan) bool { return true }

func dataPlane(p *study.Plan) bool    { return p.Study.Kind == study.DataPlane }
func controlPlane(p *study.Plan) bool { return p.Study.Kind == study.ControlPlane }
func gateways(p *study.Plan) bool     { return p.Study.Kind == ingress.Kind }
func resilient(p *study.Plan) bool    { return p.Study.Kind == resilience.Kind }

// Both combines two conditions that a plan must meet together.
func Both(a, b When) When { return func(p *study.Plan) bool { return a(p) && b(p) } }

// Meshes returns the meshes of a plan's cells, without "none", and the kits of its ingresses.
func Meshes(p *study.Plan) []string {
	found := map[string]bool{}
	for _, cell := range p.Cells {
		name, varies := cell[study.FactorMesh]
		if !varies {
			name = p.Study.Mesh
		}
		if name != "" && name != study.MeshNone {
			found[name] = true
		}
	}
	for _, name := range ingress.Ingresses(p) {
		found[name] = true
	}
	return sorted(found)
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func meshed(p *study.Plan) bool { return len(Meshes(p)) > 0 }

// Cell requires that one of the plan's cells meets a condition.
func Cell(is func(record.Cell) bool) When {
	return func(p *study.Plan) bool { return slices.ContainsFunc(p.Cells, is) }
}

// Counted requires a cell in which a factor's count is above zero.
func Counted(factor string) When {
	return Cell(func(c record.Cell) bool { return c[factor] != "0" && c[factor] != study.NotApplicable })
}

// OfChange requires a cell that makes changes of one of the kinds.
func OfChange(kinds ...string) When {
	return func(p *study.Plan) bool {
		return controlplane.Of(p.Study) != nil && Cell(func(c record.Cell) bool {
			switch c[controlplane.FactorChange] {
			case controlplane.ChangeMixed:
				return true // of any kind
			case controlplane.ChangeTrace:
				return slices.ContainsFunc(controlplane.Of(p.Study).Trace, func(t controlplane.TraceChange) bool { return slices.Contains(kinds, t.Change) })
			}
			return slices.Contains(kinds, c[controlplane.FactorChange])
		})(p)
	}
}

// ofEndpoints requires changes that add and remove pods.
var ofEndpoints = OfChange(controlplane.ChangeEndpointsScale, controlplane.ChangeEndpointsReplace, controlplane.ChangeEndpointsFlap, controlplane.ChangeRollingRestart, controlplane.ChangePodLabels)

// Step requires a step of the timeline that meets a condition.
func Step(is func(fault.Action) bool) When {
	return func(p *study.Plan) bool {
		return resilience.Of(p.Study) != nil && slices.ContainsFunc(resilience.Of(p.Study).Timeline.Steps, func(s fault.Step) bool { return is(s.Action) })
	}
}

// HasStep requires a step of this type in the timeline.
func HasStep[T fault.Action]() When {
	return Step(func(a fault.Action) bool { _, ok := a.(T); return ok })
}

func profiled(p *study.Plan) bool { return dataPlane(p) && p.Study.Measured(study.MeasureProfile) }

// Ledger reports whether a plan joins each request from what its stations wrote.
func Ledger(p *study.Plan) bool { return p.Study.Measured(study.MeasureLedger) }

// placed reports whether pods must run on certain nodes.
func placed(p *study.Plan) bool { return dataplane.Placed(p) || Cell(dataplane.Scattered)(p) }

// renewed reports whether pods are recreated between blocks.
func renewed(p *study.Plan) bool { return p.Study.Blocks.Redeploy > 0 }

// Traffic reports whether real requests run during a control plane's changes.
func Traffic(p *study.Plan) bool {
	return controlplane.Of(p.Study) != nil && controlplane.Of(p.Study).Traffic != nil
}

// Gateway reports whether a real gateway of the mesh gets routes during a control
// plane's changes.
func Gateway(p *study.Plan) bool {
	return controlplane.Of(p.Study) != nil && controlplane.Of(p.Study).Gateway != nil
}

// requests reports whether real requests are sent during a control plane's changes.
func requests(p *study.Plan) bool { return Traffic(p) || Gateway(p) }

// realPods reports whether real pods run alongside the simulated ones.
func realPods(p *study.Plan) bool {
	return requests(p) || controlPlane(p) && Counted(controlplane.FactorRealPods)(p)
}

// ownSlices reports whether changes write EndpointSlices themselves; byControllers,
// whether the cluster's controllers write them.
func ownSlices(p *study.Plan) bool {
	return controlplane.Of(p.Study) != nil && controlplane.Of(p.Study).EndpointsBy == controlplane.EndpointsBySlices
}

func byControllers(p *study.Plan) bool { return !ownSlices(p) || Traffic(p) }

// levers reports whether a plan sets levers of istiod; see kinds/resilience/trial,
// SetsControl.
func levers(p *study.Plan) bool {
	debounce, _ := controlplane.LeverByName(study.FactorDebounceAfter)
	return controlPlane(p) || resilient(p) && Cell(func(c record.Cell) bool { return debounce.Sets(c[study.FactorDebounceAfter]) })(p)
}

// onNodes requires a step that acts on processes or packets of nodes.
var onNodes = Step(func(a fault.Action) bool { return len(a.Needs()) > 0 || expires(a) })

// controlPods requires a step that kills or pauses the control plane's pods; away,
// one that keeps them away.
var (
	controlPods = Step(func(a fault.Action) bool { return ofControlPlane(a, fault.DoKill) || ofControlPlane(a, fault.DoPause) })
	away        = Step(func(a fault.Action) bool { return ofControlPlane(a, fault.DoKill) })
)

func ofControlPlane(a fault.Action, do string) bool {
	p, ok := a.(*fault.Process)
	return ok && p.Of == fault.OfControlPlane && p.Do == do || do == fault.DoKill && expires(a)
}

func expires(a fault.Action) bool {
	c, ok := a.(*fault.Certificates)
	return ok && c.Do == fault.DoExpire
}

// abrupt requires a step that removes replicas without a grace period.
var abrupt = Step(func(a fault.Action) bool { r, ok := a.(*fault.Remove); return ok && r.Abrupt })

// scales requires steps that remove, add or restart replicas.
var scales = Step(func(a fault.Action) bool {
	switch a.(type) {
	case *fault.Remove, *fault.Add, *fault.Restart, *fault.Load, *fault.Move:
		return true
	}
	return false
})

// stepObjects returns the rights to change the objects of a study's steps and to
// revert the changes.
func stepObjects(p *study.Plan) []Right {
	var out []Right
	add := func(step, version, kind, namespace string) {
		group, v, grouped := strings.Cut(version, "/")
		if !grouped {
			group, v = "", version
		}
		r := Right{Verbs: []string{"get", "create", "update", "patch", "delete"}, Group: group, Version: v, Kind: kind,
			Where: InNamed, Namespace: namespace, Why: "step " + step + " changes it, and it is reverted"}
		if namespace == "" {
			r.Where = InRun
		}
		if !slices.ContainsFunc(out, func(o Right) bool { return o.Name() == r.Name() && o.Namespace == r.Namespace }) {
			out = append(out, r)
		}
	}
	if resilience.Of(p.Study) == nil {
		return nil
	}
	for _, s := range resilience.Of(p.Study).Timeline.Steps {
		c, ok := s.Action.(*fault.Config)
		if !ok {
			continue
		}
		for _, o := range c.Apply {
			version, _ := o["apiVersion"].(string)
			kind, _ := o["kind"].(string)
			meta, _ := o["metadata"].(map[string]any)
			namespace, _ := meta["namespace"].(string)
			add(s.Name, version, kind, namespace)
		}
		for _, o := range c.Delete {
			add(s.Name, o.APIVersion, o.Kind, o.Namespace)
		}
	}
	return out
}

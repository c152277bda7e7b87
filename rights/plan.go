package rights

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/fault"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// kind says that a plan is of a kind of study.
func kind(k study.Kind) when {
	return func(p *study.Plan) bool { return p.Study.Kind == k }
}

// always is every plan.
func always(*study.Plan) bool { return true }

// either is where one of several holds, all where each does.
func either(some ...when) when {
	return func(p *study.Plan) bool { return slices.ContainsFunc(some, func(w when) bool { return w(p) }) }
}

func all(some ...when) when {
	return func(p *study.Plan) bool { return !slices.ContainsFunc(some, func(w when) bool { return !w(p) }) }
}

// Meshes are the meshes that a plan's cells are of, without the one that is
// none.
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
	return sorted(found)
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func meshed(p *study.Plan) bool { return len(Meshes(p)) > 0 }

func istio(p *study.Plan) bool { return slices.Contains(Meshes(p), study.MeshIstio) }

// cell says that one of a plan's cells is such.
func cell(is func(record.Cell) bool) when {
	return func(p *study.Plan) bool { return slices.ContainsFunc(p.Cells, is) }
}

// set says that a cell has a level of one of the factors beside those that
// leave all to the mesh; see package mesh/istio, level.
func set(factors ...string) when {
	return cell(func(c record.Cell) bool {
		return slices.ContainsFunc(factors, func(f string) bool {
			switch v := c[f]; v {
			case "", study.NotApplicable, study.LevelDefault, study.LevelNone:
				return false
			case study.LevelOff:
				return f == study.FactorRetries
			}
			return true
		})
	})
}

// above says that a cell has some of what a factor counts.
func above(factor string) when {
	return cell(func(c record.Cell) bool {
		return c[factor] != "" && c[factor] != "0" && c[factor] != study.NotApplicable
	})
}

// Sidecars of the data plane, and of services.
var (
	sidecars = either(
		all(kind(study.DataPlane), istio, cell(func(c record.Cell) bool { return len(study.WayOf(c).At(record.PlaceSidecar)) > 0 })),
		all(kind(study.Resilience), istio))
	uncaptured = cell(func(c record.Cell) bool { return c[study.FactorInterception] == study.InterceptionNone })
	profiled   = measured(study.MeasureProfile)
)

func measured(measure string) when {
	return func(p *study.Plan) bool { return p.Study.Measured(measure) }
}

// part says that a cell switches on a part of one of the kinds.
func part(kinds ...string) when {
	return cell(func(c record.Cell) bool {
		parts, _ := study.Parts(c[study.FactorFilters]) // a plan's levels are right
		return slices.ContainsFunc(parts, func(p study.Part) bool { return slices.Contains(kinds, p.Kind) })
	})
}

// noFilter are the kinds of parts that no EnvoyFilter makes.
var noFilter = []string{study.PartAuthzAllow, study.PartAuthzDeny, study.PartJWT, study.PartJWTToken, study.PartECDSA, study.PartDNSProxy}

// filtered says that a part is made by an EnvoyFilter.
func filtered() when {
	var kinds []string
	for _, k := range study.PartKinds() {
		if !slices.Contains(noFilter, k.Name) {
			kinds = append(kinds, k.Name)
		}
	}
	return part(kinds...)
}

// renewed says that pods are made anew between blocks.
func renewed(p *study.Plan) bool { return p.Study.Blocks.Redeploy > 0 }

// traffic says that real requests run beside a control plane's changes, or that
// real pods stand beside the simulated ones.
func traffic(p *study.Plan) bool { return p.Study.Control != nil && p.Study.Control.Traffic != nil }

var realPods = all(kind(study.ControlPlane), either(traffic, above(study.FactorRealPods)))

// tokens says that simulated proxies show istiod who they are.
func tokens(p *study.Plan) bool {
	return p.Study.Control != nil && p.Study.Control.Security != study.SecurityPlaintext
}

// changes says that a cell changes one of the kinds of objects.
func changes(kinds ...string) when {
	return func(p *study.Plan) bool {
		if p.Study.Control == nil {
			return false
		}
		return slices.ContainsFunc(p.Cells, func(c record.Cell) bool {
			switch c[study.FactorChange] {
			case study.ChangeMixed:
				return true // of any kind
			case study.ChangeTrace:
				return slices.ContainsFunc(p.Study.Control.Trace, func(t study.TraceChange) bool { return slices.Contains(kinds, t.Change) })
			}
			return slices.Contains(kinds, c[study.FactorChange])
		})
	}
}

var endpointChanges = []string{study.ChangeEndpointsScale, study.ChangeEndpointsReplace, study.ChangeEndpointsFlap, study.ChangeRollingRestart, study.ChangePodLabels}

// slices says that changes write EndpointSlices of their own, and controllers
// that the cluster's controllers do.
func ownSlices(p *study.Plan) bool {
	return p.Study.Control != nil && p.Study.Control.EndpointsBy == study.EndpointsBySlices
}

func byControllers(p *study.Plan) bool { return !ownSlices(p) || traffic(p) }

// levers says that a plan sets levers of istiod; see kinds/resilience/trial,
// SetsControl.
func levers(p *study.Plan) bool {
	if p.Study.Kind == study.ControlPlane {
		return true
	}
	usual, _ := study.FactorByName(study.FactorDebounceAfter)
	return p.Study.Kind == study.Resilience && cell(func(c record.Cell) bool {
		v := c[study.FactorDebounceAfter]
		return v != "" && v != study.NotApplicable && v != usual.Default
	})(p)
}

// step says that a step of a resilience study's timeline is such.
func step(is func(fault.Action) bool) when {
	return func(p *study.Plan) bool {
		return p.Study.Scenario != nil && slices.ContainsFunc(p.Study.Scenario.Timeline.Steps, func(s fault.Step) bool { return is(s.Action) })
	}
}

var (
	onNodes = step(func(a fault.Action) bool { return len(a.Needs()) > 0 || expires(a) })
	away    = step(func(a fault.Action) bool {
		p, ok := a.(*fault.Process)
		return ok && p.Of == fault.OfControlPlane && p.Do == fault.DoKill || expires(a)
	})
	controlPods = step(func(a fault.Action) bool {
		p, ok := a.(*fault.Process)
		return ok && p.Of == fault.OfControlPlane || expires(a)
	})
	configures = step(func(a fault.Action) bool { return a.Kind() == (*fault.Config)(nil).Kind() })
	scales     = step(func(a fault.Action) bool {
		switch a.(type) {
		case *fault.Remove, *fault.Add, *fault.Restart, *fault.Load:
			return true
		}
		return false
	})
)

func expires(a fault.Action) bool {
	c, ok := a.(*fault.Certificates)
	return ok && c.Do == fault.DoExpire
}

// stepObjects are the rights to the objects that steps of a study change: the
// step itself, and putting back what was there.
func stepObjects(p *study.Plan) []Right {
	var out []Right
	add := func(step, version, kind, namespace string) {
		group, v, grouped := strings.Cut(version, "/")
		if !grouped {
			group, v = "", version
		}
		r := Right{Verbs: []string{"get", "create", "update", "patch", "delete"}, Group: group, Version: v, Kind: kind,
			Where: InNamed, Namespace: namespace, Why: "step " + step + " changes it, and it is put back"}
		if namespace == "" {
			r.Where = InRun
		}
		if !slices.ContainsFunc(out, func(o Right) bool { return o.Name() == r.Name() && o.Namespace == r.Namespace }) {
			out = append(out, r)
		}
	}
	if p.Study.Scenario == nil {
		return nil
	}
	for _, s := range p.Study.Scenario.Timeline.Steps {
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

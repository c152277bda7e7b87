package rights

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// always is every plan.
func always(*study.Plan) bool { return true }

func dataPlane(p *study.Plan) bool    { return p.Study.Kind == study.DataPlane }
func controlPlane(p *study.Plan) bool { return p.Study.Kind == study.ControlPlane }
func resilience(p *study.Plan) bool   { return p.Study.Kind == study.Resilience }

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
func cell(p *study.Plan, is func(record.Cell) bool) bool { return slices.ContainsFunc(p.Cells, is) }

// set says that a cell has a level of one of the factors beside those that
// leave all to the mesh; see package mesh/istio, level.
func set(p *study.Plan, factors ...string) bool {
	return cell(p, func(c record.Cell) bool {
		return slices.ContainsFunc(factors, func(f string) bool {
			switch c[f] {
			case "", study.NotApplicable, study.LevelDefault, study.LevelNone:
				return false
			case study.LevelOff:
				return f == study.FactorRetries
			}
			return true
		})
	})
}

func retries(p *study.Plan) bool {
	return istio(p) && set(p, study.FactorRetries, study.FactorRetryOn, study.FactorPerTryTimeout, study.FactorRequestTimeout)
}

func balanced(p *study.Plan) bool {
	return istio(p) && set(p, study.FactorOutlierDetection, study.FactorCircuitBreaker, study.FactorLoadBalancer, study.FactorLocality)
}

// sidecars are of the data plane, and of services.
func sidecars(p *study.Plan) bool {
	return istio(p) && (resilience(p) ||
		dataPlane(p) && cell(p, func(c record.Cell) bool { return len(study.WayOf(c).At(record.PlaceSidecar)) > 0 }))
}

// ambient says that ztunnel carries requests.
func ambient(p *study.Plan) bool { return istio(p) && cell(p, study.Ambient) }

// waypoint says that one stands before a Service.
func waypoint(p *study.Plan) bool { return istio(p) && cell(p, study.Waypoint) }

// entering says that requests come in by a gateway of the mesh.
func entering(p *study.Plan) bool { return istio(p) && cell(p, study.Entering) }

func uncaptured(p *study.Plan) bool {
	return cell(p, func(c record.Cell) bool { return c[study.FactorInterception] == study.InterceptionNone })
}

func profiled(p *study.Plan) bool { return dataPlane(p) && p.Study.Measured(study.MeasureProfile) }

func ledger(p *study.Plan) bool { return p.Study.Measured(study.MeasureLedger) }

func sidecarLedger(p *study.Plan) bool { return sidecars(p) && ledger(p) }

// part says that a cell switches on a part of such a kind.
func part(p *study.Plan, is func(kind string) bool) bool {
	return cell(p, func(c record.Cell) bool {
		parts, _ := study.Parts(c[study.FactorFilters]) // a plan's levels are right
		return slices.ContainsFunc(parts, func(p study.Part) bool { return is(p.Kind) })
	})
}

// filtered says that an EnvoyFilter makes a part.
func filtered(p *study.Plan) bool {
	return part(p, func(kind string) bool {
		switch kind {
		case study.PartAuthzAllow, study.PartAuthzDeny, study.PartJWT, study.PartJWTToken, study.PartECDSA, study.PartDNSProxy:
			return false
		}
		return true
	})
}

func ownFilter(p *study.Plan) bool {
	return part(p, func(kind string) bool { return kind == study.PartEnvoyFilter })
}

func authorized(p *study.Plan) bool {
	return part(p, func(kind string) bool { return kind == study.PartAuthzAllow || kind == study.PartAuthzDeny })
}

func token(p *study.Plan) bool {
	return part(p, func(kind string) bool { return kind == study.PartJWT || kind == study.PartJWTToken })
}

// placed says that it matters on which nodes pods run.
func placed(p *study.Plan) bool {
	return dataPlane(p) && (p.Placed() || cell(p, study.Scattered))
}

// renewed says that pods are made anew between blocks.
func renewed(p *study.Plan) bool { return p.Study.Blocks.Redeploy > 0 }

// traffic says that real requests run beside a control plane's changes.
func traffic(p *study.Plan) bool { return p.Study.Control != nil && p.Study.Control.Traffic != nil }

// counts says that a cell has some of what a factor counts.
func counts(p *study.Plan, factor string) bool {
	return cell(p, func(c record.Cell) bool { return c[factor] != "0" && c[factor] != study.NotApplicable })
}

// scoped says that a Sidecar is a lever of a cell.
func scoped(p *study.Plan) bool {
	return cell(p, func(c record.Cell) bool {
		v := c[study.FactorSidecarScope]
		return v != "" && v != study.SidecarScopeNone && v != study.LevelInstalled && v != study.NotApplicable
	})
}

// gateway says that a real gateway of the mesh is given routes.
func gateway(p *study.Plan) bool { return p.Study.Control != nil && p.Study.Control.Gateway != nil }

// requests says that real ones are sent beside a control plane's changes.
func requests(p *study.Plan) bool { return traffic(p) || gateway(p) }

// realPods says that real pods stand beside the simulated ones.
func realPods(p *study.Plan) bool {
	return requests(p) || controlPlane(p) && counts(p, study.FactorRealPods)
}

// tokens says that simulated proxies show istiod who they are.
func tokens(p *study.Plan) bool {
	return p.Study.Control != nil && p.Study.Control.Security != study.SecurityPlaintext
}

// changes says that a cell makes changes of one of the kinds, which have spaces
// between them.
func changes(p *study.Plan, kinds string) bool {
	among := strings.Fields(kinds)
	return p.Study.Control != nil && cell(p, func(c record.Cell) bool {
		switch c[study.FactorChange] {
		case study.ChangeMixed:
			return true // of any kind
		case study.ChangeTrace:
			return slices.ContainsFunc(p.Study.Control.Trace, func(t study.TraceChange) bool { return slices.Contains(among, t.Change) })
		}
		return slices.Contains(among, c[study.FactorChange])
	})
}

// endpointChanges are those that pods come and go by.
const endpointChanges = study.ChangeEndpointsScale + " " + study.ChangeEndpointsReplace + " " + study.ChangeEndpointsFlap + " " +
	study.ChangeRollingRestart + " " + study.ChangePodLabels

// ownSlices says that changes write EndpointSlices of their own, and
// byControllers that the cluster's controllers do.
func ownSlices(p *study.Plan) bool {
	return p.Study.Control != nil && p.Study.Control.EndpointsBy == study.EndpointsBySlices
}

func byControllers(p *study.Plan) bool { return !ownSlices(p) || traffic(p) }

// levers says that a plan sets levers of istiod; see kinds/resilience/trial,
// SetsControl.
func levers(p *study.Plan) bool {
	debounce, _ := study.LeverByName(study.FactorDebounceAfter)
	return controlPlane(p) || resilience(p) && cell(p, func(c record.Cell) bool { return debounce.Sets(c[study.FactorDebounceAfter]) })
}

// sets says that a cell has a level of one of the levers, other than to leave it
// as installed.
func sets(p *study.Plan, one func(study.Factor) bool) bool {
	return slices.ContainsFunc(study.Levers(), func(f study.Factor) bool {
		return one(f) && cell(p, func(c record.Cell) bool { return f.Sets(c[f.Name]) })
	})
}

// deploymentLevers are of istiod's Deployment, replicaLevers of its number of
// pods, and configLevers of the mesh configuration: all that are neither of the
// Deployment nor of a Sidecar alone. See mesh/istio, Apply.
func deploymentLevers(p *study.Plan) bool {
	return sets(p, func(f study.Factor) bool { return f.Scope == study.ScopeIstiod })
}

func replicaLevers(p *study.Plan) bool {
	return sets(p, func(f study.Factor) bool { return f.Name == study.FactorIstiodReplicas })
}

func configLevers(p *study.Plan) bool {
	return sets(p, func(f study.Factor) bool {
		return f.Scope != study.ScopeIstiod && f.Name != study.FactorSidecarScope && f.Name != study.FactorSidecarHosts
	})
}

// step says that a step of a timeline is such.
func step(p *study.Plan, is func(fault.Action) bool) bool {
	return p.Study.Scenario != nil && slices.ContainsFunc(p.Study.Scenario.Timeline.Steps, func(s fault.Step) bool { return is(s.Action) })
}

func onNodes(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { return len(a.Needs()) > 0 || expires(a) })
}

// controlPods says that a step is about the control plane's pods, and away that
// it takes them away.
func controlPods(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { return ofControlPlane(a, fault.DoKill) || ofControlPlane(a, fault.DoPause) })
}

func away(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { return ofControlPlane(a, fault.DoKill) })
}

func ofControlPlane(a fault.Action, do string) bool {
	p, ok := a.(*fault.Process)
	return ok && p.Of == fault.OfControlPlane && p.Do == do || do == fault.DoKill && expires(a)
}

func expires(a fault.Action) bool {
	c, ok := a.(*fault.Certificates)
	return ok && c.Do == fault.DoExpire
}

func drains(p *study.Plan) bool { return p.Drains() }

// shared says that a step acts on proxies that services share: of which kind, and whether
// it restarts them.
func shared(p *study.Plan, of string, restarts bool) bool {
	return step(p, func(a fault.Action) bool {
		switch a := a.(type) {
		case *fault.Process:
			return a.Of == of && !restarts && a.Do != fault.DoPause
		case *fault.Restart:
			return a.Of == of && restarts
		}
		return false
	})
}

func restartsNodes(p *study.Plan) bool { return shared(p, fault.OfZtunnel, true) }

func killsNodes(p *study.Plan) bool { return shared(p, fault.OfZtunnel, false) }

func ofWaypoint(p *study.Plan) bool {
	return shared(p, fault.OfWaypoint, true) || shared(p, fault.OfWaypoint, false)
}

func configures(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { _, ok := a.(*fault.Config); return ok })
}

// disturbs says that a step is about packets.
func disturbs(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { _, ok := a.(*fault.Network); return ok })
}

// abrupt says that a step removes replicas without their time to end.
func abrupt(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { r, ok := a.(*fault.Remove); return ok && r.Abrupt })
}

// revised says that steps are about control planes of several revisions, and moves that
// they move the run's namespace from one to another.
func revised(p *study.Plan) bool {
	return moves(p) || step(p, func(a fault.Action) bool { _, ok := a.(*fault.Revision); return ok })
}

func moves(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { _, ok := a.(*fault.Move); return ok })
}

// scales says that steps remove, add or restart replicas.
func scales(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool {
		switch a.(type) {
		case *fault.Remove, *fault.Add, *fault.Restart, *fault.Load, *fault.Move:
			return true
		}
		return false
	})
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

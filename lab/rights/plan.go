package rights

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

func always(*study.Plan) bool { return true }

func dataPlane(p *study.Plan) bool    { return p.Study.Kind == study.DataPlane }
func controlPlane(p *study.Plan) bool { return p.Study.Kind == study.ControlPlane }
func resilient(p *study.Plan) bool    { return p.Study.Kind == resilience.Kind }

// Meshes are the meshes of a plan's cells, without "none".
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

// cell: one of the plan's cells fulfils a condition.
func cell(p *study.Plan, is func(record.Cell) bool) bool { return slices.ContainsFunc(p.Cells, is) }

// set: a cell has a level of one of the factors other than those that leave the
// setting to the mesh; see package mesh/istio, level.
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

// sidecars: sidecars of the data plane or of services carry requests.
func sidecars(p *study.Plan) bool {
	return istio(p) && (resilient(p) ||
		dataPlane(p) && cell(p, func(c record.Cell) bool { return len(study.WayOf(c).At(record.PlaceSidecar)) > 0 }))
}

// ambient: ztunnel carries requests.
func ambient(p *study.Plan) bool { return istio(p) && cell(p, study.Ambient) }

// waypoint: a Service has one.
func waypoint(p *study.Plan) bool { return istio(p) && cell(p, study.Waypoint) }

// entering: requests enter through a gateway of the mesh.
func entering(p *study.Plan) bool { return istio(p) && cell(p, study.Entering) }

func uncaptured(p *study.Plan) bool {
	return cell(p, func(c record.Cell) bool { return c[study.FactorInterception] == study.InterceptionNone })
}

func profiled(p *study.Plan) bool { return dataPlane(p) && p.Study.Measured(study.MeasureProfile) }

func ledger(p *study.Plan) bool { return p.Study.Measured(study.MeasureLedger) }

func sidecarLedger(p *study.Plan) bool { return sidecars(p) && ledger(p) }

// part: a cell switches on a part of a certain kind.
func part(p *study.Plan, is func(kind string) bool) bool {
	return cell(p, func(c record.Cell) bool {
		parts, _ := study.Parts(c[study.FactorFilters]) // a plan's levels are right
		return slices.ContainsFunc(parts, func(p study.Part) bool { return is(p.Kind) })
	})
}

// filtered: a part is made by an EnvoyFilter.
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

// placed: pods must run on certain nodes.
func placed(p *study.Plan) bool {
	return dataPlane(p) && (p.Placed() || cell(p, study.Scattered))
}

// renewed: pods are recreated between blocks.
func renewed(p *study.Plan) bool { return p.Study.Blocks.Redeploy > 0 }

// traffic: real requests run during a control plane's changes.
func traffic(p *study.Plan) bool { return p.Study.Control != nil && p.Study.Control.Traffic != nil }

// counts: a cell has more than none of what a factor counts.
func counts(p *study.Plan, factor string) bool {
	return cell(p, func(c record.Cell) bool { return c[factor] != "0" && c[factor] != study.NotApplicable })
}

// scoped: a Sidecar is a lever of a cell.
func scoped(p *study.Plan) bool {
	return cell(p, func(c record.Cell) bool {
		v := c[study.FactorSidecarScope]
		return v != "" && v != study.SidecarScopeNone && v != study.LevelInstalled && v != study.NotApplicable
	})
}

// gateway: a real gateway of the mesh gets routes.
func gateway(p *study.Plan) bool { return p.Study.Control != nil && p.Study.Control.Gateway != nil }

// requests: real requests are sent during a control plane's changes.
func requests(p *study.Plan) bool { return traffic(p) || gateway(p) }

// realPods: real pods run beside the simulated ones.
func realPods(p *study.Plan) bool {
	return requests(p) || controlPlane(p) && counts(p, study.FactorRealPods)
}

// tokens: simulated proxies authenticate to istiod.
func tokens(p *study.Plan) bool {
	return p.Study.Control != nil && p.Study.Control.Security != study.SecurityPlaintext
}

// changes: a cell makes changes of one of the kinds, which are separated by spaces.
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

// endpointChanges add and remove pods.
const endpointChanges = study.ChangeEndpointsScale + " " + study.ChangeEndpointsReplace + " " + study.ChangeEndpointsFlap + " " +
	study.ChangeRollingRestart + " " + study.ChangePodLabels

// ownSlices: changes write EndpointSlices of their own; byControllers: the
// cluster's controllers write them.
func ownSlices(p *study.Plan) bool {
	return p.Study.Control != nil && p.Study.Control.EndpointsBy == study.EndpointsBySlices
}

func byControllers(p *study.Plan) bool { return !ownSlices(p) || traffic(p) }

// levers: a plan sets levers of istiod; see kinds/resilience/trial, SetsControl.
func levers(p *study.Plan) bool {
	debounce, _ := study.LeverByName(study.FactorDebounceAfter)
	return controlPlane(p) || resilient(p) && cell(p, func(c record.Cell) bool { return debounce.Sets(c[study.FactorDebounceAfter]) })
}

// sets: a cell changes one of certain levers.
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

// step: a step of the timeline fulfils a condition.
func step(p *study.Plan, is func(fault.Action) bool) bool {
	return resilience.Of(p.Study) != nil && slices.ContainsFunc(resilience.Of(p.Study).Timeline.Steps, func(s fault.Step) bool { return is(s.Action) })
}

// hasStep: a step of the timeline is of this type.
func hasStep[T fault.Action](p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { _, ok := a.(T); return ok })
}

func onNodes(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { return len(a.Needs()) > 0 || expires(a) })
}

// controlPods: a step kills or pauses the control plane's pods; away: it keeps them
// away.
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

// shared: a step restarts, or kills, a proxy of this kind that services share.
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

// abrupt: a step removes replicas without a grace period.
func abrupt(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool { r, ok := a.(*fault.Remove); return ok && r.Abrupt })
}

// revised: steps involve control planes of several revisions.
func revised(p *study.Plan) bool { return hasStep[*fault.Move](p) || hasStep[*fault.Revision](p) }

// scales: steps remove, add or restart replicas.
func scales(p *study.Plan) bool {
	return step(p, func(a fault.Action) bool {
		switch a.(type) {
		case *fault.Remove, *fault.Add, *fault.Restart, *fault.Load, *fault.Move:
			return true
		}
		return false
	})
}

// stepObjects are the rights to change the objects of a study's steps, and to revert
// the changes.
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

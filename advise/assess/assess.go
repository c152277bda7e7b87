package assess

import (
	"cmp"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// Schema is the version of Assessment's JSON.
const Schema = 1

// Assessment is what can be said of a mesh.
type Assessment struct {
	Schema  int       `json:"schema"`
	Source  string    `json:"source"`
	At      time.Time `json:"at"`
	WindowS float64   `json:"window_s"`

	Mesh          Mesh             `json:"mesh"`
	Traffic       *Traffic         `json:"traffic,omitempty"`
	Logged        *Logged          `json:"access_logs,omitempty"`
	Cost          Cost             `json:"cost"`
	Limits        *advice.Report   `json:"limits,omitempty"`
	Signals       *signals.Reading `json:"signals,omitempty"`
	Log           *Log             `json:"log,omitempty"` // of istiod
	Profiles      []Profiled       `json:"profiles,omitempty"`
	Configuration *Configuration   `json:"configuration,omitempty"`
	// Namespaces are those with sidecars, most sidecars first.
	Namespaces []Namespace `json:"namespaces,omitempty"`
	Modes      []Modes     `json:"modes,omitempty"`
	Capacity   *Capacity   `json:"capacity,omitempty"`
	Against    *Against    `json:"against,omitempty"`
	Settle     []Study     `json:"settle"`
	Unknown    []Unknown   `json:"unknown"`
}

// Mesh is what there is.
type Mesh struct {
	Istiod string `json:"istiod,omitempty"` // its version
	// Proxies has a group for each kind, version and revision.
	Proxies []Group `json:"proxies"`
	// Deployments are those of istiod, gateways and waypoints.
	Deployments []Deployed `json:"deployments,omitempty"`
	// Namespaces counts those with sidecars.
	Namespaces int `json:"namespaces,omitempty"`
	// Skews are proxies of other minor versions than their istiod.
	Skews    []Skew         `json:"skews,omitempty"`
	Problems []KnownProblem `json:"problems,omitempty"`
	Nodes    int            `json:"nodes"`
	Enrolled int            `json:"enrolled,omitempty"`
	Objects  map[string]int `json:"objects,omitempty"`
	Settings []Setting      `json:"settings,omitempty"` // those that differ from Istio's defaults
	// Sync is of the proxies that are connected; nil if unknown.
	Sync *Sync `json:"sync,omitempty"`
	// Clusters is how many clusters istiod watches, and Analyses says whether an istiod analyses configuration; nil if
	// unknown.
	Clusters *int  `json:"clusters,omitempty"`
	Analyses *bool `json:"analyses,omitempty"`
}

// Group are the proxies of a kind, a version and a revision.
type Group struct {
	Kind       Kind   `json:"kind"`
	Version    string `json:"version,omitempty"`
	Revision   string `json:"revision,omitempty"`
	Count      int    `json:"count"`
	Namespaces int    `json:"namespaces"`
	// Requests and Limits are those of all; Unlimited counts those without a CPU limit.
	Requests  Resources `json:"requests"`
	Limits    Resources `json:"limits"`
	Unlimited int       `json:"without_cpu_limit,omitempty"`
	Restarts  int       `json:"restarts,omitempty"`
}

// Configuration is what proxies hold, by owner, and what Sidecars would change.
type Configuration struct {
	Held *scope.Report `json:"held"`
	// Saving is of the Sidecars in the file beside the assessment; nil without any.
	Saving   *generate.Prediction `json:"saving,omitempty"`
	Sidecars int                  `json:"sidecars_to_change,omitempty"`
	Risk     string               `json:"risk,omitempty"`
	Open     []generate.Open      `json:"uncovered,omitempty"`
}

// Assess says what the evidence says.
func Assess(e Evidence) Assessment {
	e = e.finite()
	a := Assessment{Schema: Schema, Source: e.Source, At: e.At, WindowS: e.WindowS, Limits: e.Limits, Signals: e.Signals, Log: e.Log, Modes: e.Modes, Logged: e.AccessLogs, Profiles: e.Profiles,
		Unknown: slices.Clone(e.Unknown),
		Mesh: Mesh{Istiod: e.Istiod, Proxies: groups(e.Proxies, !NoResources.In(e.Unknown)), Nodes: e.Nodes, Enrolled: e.Enrolled, Objects: e.Objects,
			Settings: e.Settings, Deployments: deployments(e), Sync: e.Sync, Namespaces: namespacesOf(e.Proxies, Sidecar)}}
	if n, known := a.quantity(advice.QuantityClusters); known {
		a.Mesh.Clusters = new(int(n))
	}
	a.Mesh.Analyses = analyses(e.Proxies)
	a.Mesh.Skews, a.Mesh.Problems = skews(a.Mesh.Proxies), problems(a.Mesh)
	a.traffic(e)
	a.cost(e)
	a.limits(e)
	a.configuration(e)
	a.namespaces(e)
	a.modes(e)
	a.capacity(e)
	a.settle(e)
	return a
}

func (a *Assessment) add(u Unknown) { a.Unknown = append(a.Unknown, u) }

// analyses says whether one of the istiods analyses configuration; nil if one of them may.
func analyses(proxies []Proxy) (out *bool) {
	unknown := false
	for _, p := range proxies {
		switch {
		case p.Kind != Istiod:
		case p.Analyses == nil:
			unknown = true
		case out == nil || *p.Analyses:
			out = p.Analyses
		}
	}
	if unknown && out != nil && !*out {
		return nil
	}
	return out
}

// groups counts proxies; those without a limit where limits are known.
func groups(proxies []Proxy, limits bool) []Group {
	type key struct {
		kind              Kind
		version, revision string
	}
	by, namespaces := map[key]*Group{}, map[key]map[string]bool{}
	var out []Group
	for _, p := range proxies {
		k := key{p.Kind, p.Version, p.Revision}
		if by[k] == nil {
			by[k], namespaces[k] = &Group{Kind: p.Kind, Version: p.Version, Revision: p.Revision}, map[string]bool{}
		}
		g := by[k]
		g.Count++
		g.Requests, g.Limits, g.Restarts = g.Requests.plus(p.Requests), g.Limits.plus(p.Limits), g.Restarts+p.Restarts
		if p.Limits.Cores == 0 && limits {
			g.Unlimited++
		}
		namespaces[k][p.Namespace] = true
	}
	for k, g := range by {
		g.Namespaces = len(namespaces[k])
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Version, b.Version), cmp.Compare(a.Revision, b.Revision))
	})
	return out
}

// Count is how many proxies of a kind there are.
func (m Mesh) Count(kind Kind) (n int) {
	for _, g := range m.Proxies {
		if g.Kind == kind {
			n += g.Count
		}
	}
	return n
}

// mostComing is the share of proxies that may come and go between the list of pods and istiod's count.
const mostComing = 0.1

func (a *Assessment) limits(e Evidence) {
	if e.Limits == nil {
		return
	}
	listed := a.Mesh.Count(Sidecar) + a.Mesh.Count(Ztunnel) + a.Mesh.Count(Waypoint) + a.Mesh.Count(Gateway)
	_, pods := e.Objects["Pod"]
	for _, v := range e.Limits.Values {
		if more := int(v.Value) - listed; pods && v.Name == advice.QuantityProxies && float64(more) > mostComing*v.Value {
			a.add(Elsewhere.Of(more, int(v.Value)))
		}
	}
	for _, j := range e.Limits.Undecided {
		u := Undecided.Of(j.Rule, j.Title)
		if i := slices.IndexFunc(j.Missing, func(g advice.Gap) bool { return g.Measure != "" }); i >= 0 {
			u.By = measure.Of(j.Missing[i].Measure)
		}
		a.add(u)
	}
}

func (a *Assessment) configuration(e Evidence) {
	if e.Scope == nil {
		return
	}
	a.Configuration = &Configuration{Held: e.Scope}
	r := e.Sidecars
	if r == nil {
		return
	}
	c := a.Configuration
	c.Saving, c.Sidecars, c.Risk, c.Open = &r.Saving, len(r.Steps()), r.Risk(), r.Open
	young := 0
	for _, o := range r.Open {
		if o.Code == generate.OpenUnseen {
			young++
		}
	}
	if young > 0 {
		a.add(TooYoung.Of(young))
	}
}

package assess

import (
	"cmp"
	"slices"
)

// Deployed is a Deployment of istiod, gateways or waypoints.
type Deployed struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version,omitempty"`
	Revision  string `json:"revision,omitempty"`
	Replicas  int    `json:"replicas"`
	// Requests and Limits are those of each replica.
	Requests Resources `json:"requests"`
	Limits   Resources `json:"limits"`
	// Autoscaled are the bounds of its replicas; nil if nothing scales it, or that is unknown.
	Autoscaled *Bounds `json:"autoscaled,omitempty"`
}

// Bounds are the fewest and the most replicas that an autoscaler sets.
type Bounds struct {
	Least int `json:"least"`
	Most  int `json:"most"`
}

// Full reports whether the autoscaler may add no replica, although it has added some.
func (d Deployed) Full() bool {
	return d.Autoscaled != nil && d.Replicas >= d.Autoscaled.Most && d.Autoscaled.Most > d.Autoscaled.Least
}

// Skew are proxies of another minor version than the istiod of their revision.
type Skew struct {
	Kind     Kind   `json:"kind"`
	Revision string `json:"revision,omitempty"`
	Version  string `json:"version"`
	Istiod   string `json:"istiod"`
	Count    int    `json:"count"`
	// Minors is how many minor versions istiod is ahead; negative if the proxies are.
	Minors int `json:"minors"`
}

// deployments are those of istiod, gateways and waypoints. A rollout may run two versions: the one with most
// replicas is shown.
func deployments(e Evidence) (out []Deployed) {
	type key struct {
		kind            Kind
		namespace, name string
	}
	by := map[key][]Proxy{}
	for _, p := range e.Proxies {
		if p.Kind == Istiod || p.Kind == Gateway || p.Kind == Waypoint {
			k := key{p.Kind, p.Namespace, cmp.Or(p.Workload, p.Pod)}
			by[k] = append(by[k], p)
		}
	}
	for k, all := range by {
		versions := map[string]int{}
		for _, p := range all {
			versions[p.Version]++
		}
		p := slices.MaxFunc(all, func(a, b Proxy) int {
			return cmp.Or(cmp.Compare(versions[a.Version], versions[b.Version]), cmp.Compare(a.Version, b.Version))
		})
		d := Deployed{Kind: k.kind, Namespace: k.namespace, Name: k.name, Version: p.Version, Revision: p.Revision, Replicas: len(all), Requests: p.Requests, Limits: p.Limits}
		if i := slices.IndexFunc(e.Autoscalers, func(a Autoscaler) bool { return a.Namespace == k.namespace && a.Of == k.name }); i >= 0 {
			d.Autoscaled = &e.Autoscalers[i].Bounds
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Deployed) int {
		return cmp.Or(cmp.Compare(slices.Index(placed, a.Kind), slices.Index(placed, b.Kind)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// placed is the order of the table of Deployments.
var placed = []Kind{Istiod, Gateway, Waypoint}

// skews are proxies that another minor version of istiod configures. Of several versions of a revision's istiod
// the newest counts: the others are being replaced.
func skews(groups []Group) (out []Skew) {
	type found struct {
		version
		tag string
	}
	newest := map[string]found{}
	for _, g := range groups {
		if v, known := versionOf(g.Version); known && g.Kind == Istiod {
			if had, there := newest[g.Revision]; !there || v.compare(had.version) > 0 {
				newest[g.Revision] = found{v, g.Version}
			}
		}
	}
	for _, g := range groups {
		v, known := versionOf(g.Version)
		istiod, there := newest[g.Revision]
		if !there && len(newest) == 1 && g.Revision == "" {
			for _, istiod = range newest {
				there = true
			}
		}
		if known && there && g.Kind != Istiod && !v.sameMinor(istiod.version) && v.major == istiod.major {
			out = append(out, Skew{g.Kind, g.Revision, g.Version, istiod.tag, g.Count, istiod.minor - v.minor})
		}
	}
	return out
}

// namespacesOf counts the namespaces of proxies of a kind.
func namespacesOf(proxies []Proxy, kind Kind) int {
	in := map[string]bool{}
	for _, p := range proxies {
		if p.Kind == kind {
			in[p.Namespace] = true
		}
	}
	return len(in)
}

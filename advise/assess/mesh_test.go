package assess

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/internal/note"
)

// Replicas of a Deployment are one row, with the version of most of them and its autoscaler.
func TestDeployments(t *testing.T) {
	istiod := func(version string) Proxy {
		return Proxy{Kind: Istiod, Namespace: "istio-system", Workload: "istiod", Version: version, Revision: "default", Requests: Resources{0.5, 2e9}, Limits: Resources{2, 4e9}}
	}
	m := Assess(Evidence{Proxies: []Proxy{istiod("1.30.1"), istiod("1.31.0"), istiod("1.31.0"), {Kind: Gateway, Namespace: "edge", Workload: "ingress"}, {Kind: Sidecar}},
		Autoscalers: []Autoscaler{{"edge", "ingress", Bounds{1, 5}}, {"istio-system", "istiod", Bounds{2, 3}}, {"other", "istiod", Bounds{1, 9}}}}).Mesh
	if len(m.Deployments) != 2 {
		t.Fatalf("%+v", m.Deployments)
	}
	if d := m.Deployments[0]; d.Kind != Istiod || d.Replicas != 3 || d.Version != "1.31.0" || d.Requests != (Resources{0.5, 2e9}) || *d.Autoscaled != (Bounds{2, 3}) || !d.Full() {
		t.Errorf("istiod: %+v", d)
	}
	if d := m.Deployments[1]; d.Name != "ingress" || d.Replicas != 1 || d.Full() {
		t.Errorf("a gateway: %+v", d)
	}
}

// Proxies are compared with the newest istiod of their revision, by minor version.
func TestSkews(t *testing.T) {
	m := Assess(Evidence{Proxies: []Proxy{
		{Kind: Istiod, Revision: "stable", Version: "1.29.0"}, {Kind: Istiod, Revision: "stable", Version: "1.30.4"}, {Kind: Istiod, Revision: "canary", Version: "1.31.1"},
		{Kind: Sidecar, Revision: "stable", Version: "1.28.3"}, {Kind: Sidecar, Revision: "stable", Version: "1.28.3"}, {Kind: Sidecar, Revision: "stable", Version: "1.30.0"},
		{Kind: Gateway, Revision: "stable", Version: "1.31.1-distroless"}, {Kind: Sidecar, Revision: "canary", Version: "1.31.0"}, {Kind: Sidecar, Version: "1.20.0"}, {Kind: Sidecar, Revision: "stable", Version: "latest"}}}).Mesh
	want := []Skew{{Sidecar, "stable", "1.28.3", "1.30.4", 2, 2}, {Gateway, "stable", "1.31.1-distroless", "1.30.4", 1, -1}}
	if !slices.Equal(m.Skews, want) {
		t.Errorf("%+v", m.Skews)
	}
	one := Assess(Evidence{Proxies: []Proxy{{Kind: Istiod, Revision: "default", Version: "1.30.4"}, {Kind: Ztunnel, Version: "1.29.0"}}}).Mesh
	if len(one.Skews) != 1 || one.Skews[0].Minors != 1 {
		t.Errorf("a proxy of an unknown revision, with one istiod: %+v", one.Skews)
	}
}

// Problems are of a version and of what the mesh has.
func TestProblems(t *testing.T) {
	istiod := func(version string) Proxy { return Proxy{Kind: Istiod, Version: version} }
	clusters := func(n float64) *advice.Report {
		return &advice.Report{Values: []advice.Value{{Name: advice.QuantityClusters, Value: n}}}
	}
	on := true
	analysing := Proxy{Kind: Istiod, Version: "1.20.2", Analyses: &on}
	gitops, ztunnel := "virtual_service_metadata", Proxy{Kind: Ztunnel, Version: "1.30.2"}
	for name, c := range map[string]struct {
		e          Evidence
		has, lacks []string
	}{
		"before the fix":              {Evidence{Proxies: []Proxy{istiod("1.30.2")}}, []string{gitops, "leader_election"}, []string{"ztunnel_reconnect", "long_connections"}},
		"the fix":                     {Evidence{Proxies: []Proxy{istiod("1.30.3")}}, []string{"leader_election"}, []string{gitops}},
		"before the problem":          {Evidence{Proxies: []Proxy{istiod("1.29.0")}}, nil, []string{gitops}},
		"no such objects":             {Evidence{Proxies: []Proxy{istiod("1.30.2")}, Objects: map[string]int{"VirtualService": 0}}, nil, []string{gitops}},
		"ambient":                     {Evidence{Proxies: []Proxy{istiod("1.30.2"), ztunnel}}, []string{"ztunnel_reconnect", "authorization_policies"}, []string{"mds_names"}},
		"a branch without the fix":    {Evidence{Proxies: []Proxy{istiod("1.25.4"), ztunnel}}, []string{"authorization_policies"}, []string{"ztunnel_reconnect"}},
		"before anybody knows":        {Evidence{Proxies: []Proxy{istiod("1.23.0"), ztunnel}}, nil, []string{"authorization_policies"}},
		"newer than all":              {Evidence{Proxies: []Proxy{istiod("1.32.0"), ztunnel}}, nil, []string{"authorization_policies", "ambient_multicluster_leak"}},
		"a build of a branch":         {Evidence{Proxies: []Proxy{istiod("1.30"), istiod("1.30-alpha.1"), istiod("1.30.0-rc.1"), istiod("latest")}}, nil, []string{gitops, "leader_election"}},
		"proxies":                     {Evidence{Proxies: []Proxy{{Kind: Sidecar, Version: "1.20.1-distroless"}}}, []string{"long_connections"}, []string{"stateful_sets"}},
		"proxies that have the fix":   {Evidence{Proxies: []Proxy{{Kind: Sidecar, Version: "1.20.2"}}}, nil, []string{"long_connections"}},
		"perhaps several clusters":    {Evidence{Proxies: []Proxy{istiod("1.31.0"), ztunnel}}, []string{"ambient_credentials"}, []string{"ambient_multicluster_leak"}},
		"several clusters":            {Evidence{Proxies: []Proxy{istiod("1.31.0"), ztunnel}, Limits: clusters(2)}, []string{"ambient_credentials"}, nil},
		"one cluster":                 {Evidence{Proxies: []Proxy{istiod("1.31.0"), istiod("1.27.1"), ztunnel}, Limits: clusters(1)}, nil, []string{"ambient_credentials", "removed_clusters"}},
		"analysis":                    {Evidence{Proxies: []Proxy{analysing}}, []string{"analysis"}, nil},
		"no analysis":                 {Evidence{Proxies: []Proxy{{Kind: Istiod, Version: "1.20.2", Analyses: new(bool)}}}, nil, []string{"analysis"}},
		"a fix in another minor only": {Evidence{Proxies: []Proxy{istiod("1.30.4"), ztunnel}}, []string{"workload_serialized"}, []string{"mds_names"}},
	} {
		got := codes(Assess(c.e).Mesh.Problems)
		for _, want := range c.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is missing: %v", name, want, got)
			}
		}
		for _, not := range c.lacks {
			if slices.Contains(got, not) {
				t.Errorf("%s: %s is too much: %v", name, not, got)
			}
		}
	}
	p := Assess(Evidence{Proxies: []Proxy{istiod("1.25.4"), istiod("1.30.2"), istiod("1.30.2"), ztunnel}}).Mesh.Problems
	i := slices.IndexFunc(p, func(p KnownProblem) bool { return p.Code == "authorization_policies" && p.Version == "1.30.2" })
	j := slices.IndexFunc(p, func(p KnownProblem) bool { return p.Code == "authorization_policies" && p.Version == "1.25.4" })
	if i < 0 || p[i].Fixed != "1.30.4" || p[i].Count != 2 || j < 0 || p[j].Fixed != "" {
		t.Errorf("fixes of two versions: %+v", p)
	}
}

// A problem that takes what nobody has seen says so.
func TestProblemsMayBe(t *testing.T) {
	for name, c := range map[string]struct {
		e    Evidence
		want *note.Kind
	}{
		"unknown": {Evidence{}, takesClusters.what},
		"seen":    {Evidence{Limits: &advice.Report{Values: []advice.Value{{Name: advice.QuantityClusters, Value: 3}}}}, nil},
	} {
		c.e.Proxies = []Proxy{{Kind: Istiod, Version: "1.27.1"}}
		p := Assess(c.e).Mesh.Problems
		i := slices.IndexFunc(p, func(p KnownProblem) bool { return p.Code == "removed_clusters" })
		if i < 0 || (c.want == nil) != (p[i].Takes == nil) || c.want != nil && !p[i].Takes.Is(c.want) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// The table has releases that can be read, newest first, and sources.
func TestKnownProblems(t *testing.T) {
	for _, k := range knownProblems {
		if _, ok := versionOf(k.from); !ok && k.from != "" || len(k.fixed) == 0 || len(k.of) == 0 || k.source == "" {
			t.Errorf("%s: %+v", k.kind.Of().Code, k)
		}
		for _, f := range k.fixed {
			if v, ok := versionOf(f); !ok || v.patch < 0 {
				t.Errorf("%s: release %s", k.kind.Of().Code, f)
			}
		}
	}
}

package assess

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/note"
)

// KnownProblem is a known problem of a version that this mesh runs, which touches performance.
type KnownProblem struct {
	Code    string `json:"code"`
	Kind    Kind   `json:"kind"` // of what has it
	Version string `json:"version"`
	Count   int    `json:"count"`
	// Fixed is the first release of the same minor version without it; "" if there is none, and a newer
	// minor version has to be installed.
	Fixed  string    `json:"fixed,omitempty"`
	Says   note.Note `json:"says"`
	Source string    `json:"source"`
	// Takes is what the problem takes, where it is unknown whether this mesh has that.
	Takes *note.Note `json:"takes,omitempty"`
}

// ProblemsAsOf is the day on which the table of known problems was made.
const ProblemsAsOf = "2026-11-30"

// knownProblem is a problem as the release notes of Istio tell it.
type knownProblem struct {
	kind   *note.Kind
	of     []Kind   // those whose version has it
	from   string   // the first version that is known to have it; "" if unknown: then only minor versions with a fix are known to have it
	fixed  []string // the first release without it, of each minor version
	source string
	takes  []taken // conditions that the mesh must meet; none for any mesh
}

// taken is something that a problem takes. known is false if it is unknown whether a mesh has it.
type taken struct {
	what *note.Kind
	met  func(m Mesh) (has, known bool)
}

func problem(code, says string) *note.Kind { return note.Define("assess_problem_"+code, says) }

// announced is where Istio announced a release.
func announced(release string) string {
	minor := release[:strings.LastIndexByte(release, '.')]
	return "https://istio.io/latest/news/releases/" + minor + ".x/announcing-" + release + "/"
}

// What problems take.
var (
	takesAmbient  = taken{note.Define("assess_takes_ambient", "ambient mode"), func(m Mesh) (bool, bool) { return m.Count(Ztunnel) > 0, true }}
	takesClusters = taken{note.Define("assess_takes_clusters", "several clusters"), func(m Mesh) (bool, bool) { return m.Clusters != nil && *m.Clusters > 1, m.Clusters != nil }}
	takesAnalysis = taken{note.Define("assess_takes_analysis", "analysis by istiod"), func(m Mesh) (bool, bool) { return m.Analyses != nil && *m.Analyses, m.Analyses != nil }}
	takesVirtual  = with("VirtualService")
	takesWasm     = with("WasmPlugin")
	takesPolicies = with("AuthorizationPolicy")
)

// with takes objects of a kind.
func with(kind string) taken {
	return taken{note.Define("assess_takes_"+strings.ToLower(kind), kind+"s"), func(m Mesh) (bool, bool) { n, listed := m.Objects[kind]; return n > 0, listed }}
}

var (
	istiods = []Kind{Istiod}
	envoys  = []Kind{Sidecar, Gateway, Waypoint}
)

// knownProblems has the releases' own words in short, newest first. Each was read in the announcement of a release, and
// where one is named in the issue.
var knownProblems = []knownProblem{
	{problem("mds_names", "Istiod keeps a copy of every workload's name for each Envoy that reconnects to it for workload metadata: its memory grows"),
		istiods, "", []string{"1.29.7", "1.31.1"}, announced("1.31.1"), []taken{takesAmbient}},
	{problem("workload_serialized", "Istiod serializes the same workload again for each proxy to which it sends workload metadata, which takes CPU (istio/istio#61502)"),
		istiods, "", []string{"1.29.8", "1.30.5", "1.31.1"}, announced("1.31.1"), []taken{takesAmbient}},
	{problem("authorization_policies", "In ambient mode istiod reads all AuthorizationPolicies for each pod: its CPU grows with their number (istio/istio#61254)"),
		istiods, "1.24.0", []string{"1.29.7", "1.30.4", "1.31.1"}, "https://github.com/istio/istio/issues/61254", []taken{takesAmbient, takesPolicies}},
	{problem("ambient_credentials", "In ambient mode with several clusters istiod keeps the whole state of a remote cluster whose credentials are rotated: its memory grows (istio/istio#60033)"),
		istiods, "", []string{"1.31.1"}, announced("1.31.1"), []taken{takesAmbient, takesClusters}},
	// 1.30.4 has the fix, which its announcement leaves out (istio/istio#61261).
	{problem("ambient_multicluster_leak", "In ambient mode with several clusters istiod leaks goroutines and memory when a remote cluster is removed or changed (istio/istio#60033)"),
		istiods, "", []string{"1.29.7", "1.30.4"}, announced("1.29.7"), []taken{takesAmbient, takesClusters}},
	{problem("ztunnel_reconnect", "Each time a ztunnel reconnects, as at least every keepaliveMaxServerConnectionAge, istiod sends it all workloads again (istio/ztunnel#1966)"),
		istiods, "", []string{"1.29.7", "1.30.4"}, announced("1.30.4"), []taken{takesAmbient}},
	{problem("leader_election", "Istiod leaks a goroutine each time a replica loses its leadership and regains it (istio/istio#60843)"),
		istiods, "", []string{"1.29.7", "1.30.4"}, announced("1.30.4"), nil},
	{problem("virtual_service_metadata", "A change of a VirtualService's labels or annotations alone, as GitOps tools make, is pushed to all proxies: istiod takes more CPU and pushes late (istio/istio#60629)"),
		istiods, "1.30.0", []string{"1.30.3"}, announced("1.30.3"), []taken{takesVirtual}},
	{problem("failed_pods", "Istiod leaks memory for pods that fail"),
		istiods, "", []string{"1.29.6", "1.30.3"}, announced("1.30.3"), nil},
	{problem("wasm_pushes", "Istiod pushes more often than needed if there are WasmPlugins"),
		istiods, "", []string{"1.30.2"}, announced("1.30.2"), []taken{takesWasm}},
	{problem("relabelled_pods", "Istiod leaks memory, and computes more than it has to, when pods are labelled to use another waypoint"),
		istiods, "", []string{"1.28.10", "1.29.5", "1.30.2"}, announced("1.30.2"), []taken{takesAmbient}},
	{problem("removed_clusters", "With several clusters istiod keeps the goroutines and collections of a cluster that was removed (istio/istio#57269)"),
		istiods, "", []string{"1.27.2"}, announced("1.27.2"), []taken{takesClusters}},
	{problem("analysis", "If analysis in the cluster is on, istiod analyses the configuration although nothing changed, which takes CPU (istio/istio#48665)"),
		istiods, "", []string{"1.20.3"}, announced("1.20.3"), []taken{takesAnalysis}},
	{problem("long_connections", "Proxies leak memory with long-lived TCP connections and gRPC streams"),
		envoys, "", []string{"1.19.6", "1.20.2"}, announced("1.20.2"), nil},
	{problem("stateful_sets", "Istiod pushes more often than needed while StatefulSets and headless Services scale (istio/istio#48207)"),
		istiods, "", []string{"1.20.2"}, announced("1.20.2"), nil},
	{problem("host_network", "Istiod leaks memory when pods on the host's network scale, WorkloadEntries change their address, or ServiceEntries go (istio/istio#47893)"),
		istiods, "", []string{"1.18.6", "1.19.5", "1.20.1"}, announced("1.20.1"), nil},
	{problem("nghttp2", "Proxies leak memory when an HTTP/2 upstream resets streams and then closes the connection (CVE-2023-35945)"),
		envoys, "", []string{"1.16.6", "1.17.4", "1.18.1"}, "https://github.com/envoyproxy/envoy/security/advisories/GHSA-jfxv-29pc-x22r", nil},
}

// has reports whether a version has a problem, and the release of its minor version that fixes it.
func (k knownProblem) has(tag string) (fixed string, has bool) {
	v, read := versionOf(tag)
	if !read || v.patch < 0 {
		return "", false
	}
	before := len(k.fixed) > 0
	for _, f := range k.fixed {
		fix, _ := versionOf(f)
		if v.sameMinor(fix) {
			from, since := versionOf(k.from)
			return f, v.compare(fix) < 0 && (!since || v.compare(from) >= 0)
		}
		before = before && v.compare(fix) < 0
	}
	from, since := versionOf(k.from)
	return "", since && v.compare(from) >= 0 && before // of an older minor version, which was not fixed
}

// in reports whether a mesh may have what the problem takes, and the first of it that is unknown.
func (k knownProblem) in(m Mesh) (unknown *note.Note, may bool) {
	for _, t := range k.takes {
		has, known := t.met(m)
		if known && !has {
			return nil, false
		}
		if !known && unknown == nil {
			unknown = new(t.what.Of())
		}
	}
	return unknown, true
}

// problems are those of the versions of a mesh.
func problems(m Mesh) (out []KnownProblem) {
	for _, k := range knownProblems {
		unknown, may := k.in(m)
		if !may {
			continue
		}
		for _, g := range byVersion(m.Proxies) {
			if fixed, has := k.has(g.Version); has && slices.Contains(k.of, g.Kind) {
				says := k.kind.Of()
				out = append(out, KnownProblem{strings.TrimPrefix(says.Code, "assess_problem_"), g.Kind, g.Version, g.Count, fixed, says, k.source, unknown})
			}
		}
	}
	return out
}

// byVersion joins groups that differ in their revision alone.
func byVersion(groups []Group) (out []Group) {
	for _, g := range groups {
		if i := slices.IndexFunc(out, func(o Group) bool { return o.Kind == g.Kind && o.Version == g.Version }); i >= 0 {
			out[i].Count += g.Count
			continue
		}
		out = append(out, g)
	}
	slices.SortStableFunc(out, func(a, b Group) int { return cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)) })
	return out
}

package generate

import (
	"fmt"
	"strings"
	"time"
)

func spell(d time.Duration) string {
	switch {
	case d == 24*hour:
		return "24 h"
	case d > 24*hour && d%(24*hour) == 0:
		return fmt.Sprintf("%d days", d/(24*hour))
	}
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Rules describes what is kept.
func (r Result) Rules() []string {
	window := "Every call that any source saw is kept, however rare."
	if r.Window > 0 {
		window = fmt.Sprintf("Every call that any source saw within %s before the newest observation is kept, however rare. "+
			"Older ones are listed, and not kept.", spell(r.Window))
	}
	watched := "A workload that no source watched, or that neither called nor served anybody, keeps its scope."
	if r.Watched > 0 {
		watched += fmt.Sprintf(" So does one that was watched for less than %s.", spell(r.Watched))
	}
	return []string{window, "Calls in proxies' counters are kept whatever their age.", watched,
		fmt.Sprintf("A workload gets a Sidecar of its own if that of its namespace or of the mesh would lose more than %g%% of "+
			"its saving.", 100*exception)}
}

// Because explains the reason for a Sidecar.
func (s Sidecar) Because() string {
	if s.Reason == ReasonException {
		return fmt.Sprintf("For %s alone: without it, %.0f%% of what it saves would be lost.", s.Name, 100*s.Lost)
	}
	return map[ReasonCode]string{
		ReasonMesh:       "For workloads in namespaces without a Sidecar: their own namespace, the root namespace, and what the mesh's configuration names.",
		ReasonNeeded:     "What the workloads of this namespace call, and what the mesh's configuration names.",
		ReasonNarrower:   "Less than the mesh's default: what the workloads of this namespace call, and what the mesh's configuration names.",
		ReasonUnseen:     "Not narrowed: no source saw what this workload calls.",
		ReasonUnseenSome: "Not narrowed: no source saw what workloads here call that no selector can tell apart.",
		ReasonUseless:    "Generated earlier, and no longer needed",
		ReasonTheirs:     "Not generated; left as it is",
	}[s.Reason]
}

// String explains why a workload's calls are unknown.
func (u Uncovered) String() string {
	switch u.Code {
	case UncoveredPart:
		return fmt.Sprintf("the counters of %d of its %d proxies were read", u.N, u.Of)
	case UncoveredYoung:
		return fmt.Sprintf("it has existed for %s, less than %s", spell(u.For), spell(u.Least))
	case UncoveredShort:
		return fmt.Sprintf("it was watched for %s, less than %s", spell(u.For), spell(u.Least))
	}
	return map[UncoveredCode]string{
		UncoveredUnwatched: "no source watched its proxy",
		UncoveredLabels:    "a source does not name a host that it calls: metrics without the label destination_service, or a graph of Kiali whose edge leads to a workload of no Service",
		UncoveredHosts:     "its access log names hosts that are not known: lists of Services and ServiceEntries would tell them from what clients wrote",
		UncoveredCluster:   "its access log names clusters in another way than istiod does (outboundClusterStatName), which hides whom it calls",
		UncoveredOthers:    "only others report its calls, or no proxy of its namespace reports any",
		UncoveredSilent:    "its proxy was watched, and it neither called nor served anybody",
		UncoveredUndated:   "it is not known how far back its sources reach (--metrics-window says so)",
	}[u.Code]
}

// Risk says what happens to a call to a host that a scope omits.
func (r Result) Risk() string {
	if r.RegistryOnly {
		return "A call to a host that a scope leaves out fails (outbound policy REGISTRY_ONLY)."
	}
	return "A call to a host that a scope leaves out goes through without mutual TLS, routes, retries and balancing, and a " +
		"server with STRICT mutual TLS refuses it."
}

// openCatalogue holds for each code its name, the reason, and what was done.
var openCatalogue = map[OpenCode][3]string{
	OpenUnseen:      {"not known", "", "keeps its scope"},
	OpenOwn:         {"Sidecar of its own", "", "left as it is"},
	OpenGone:        {"gone", "it called, and has no pods now", "its hosts are kept in the Sidecar of its namespace, which it has if it runs"},
	OpenPassthrough: {"outside of the mesh", "calls through the passthrough or black hole cluster", "nothing to keep; with REGISTRY_ONLY they fail, before and after"},
	OpenProxyless:   {"no proxy", "pods without a sidecar", "nothing; once injected, they have the Sidecar of their namespace, and nobody saw what they call"},
	OpenMachines:    {"machines", "WorkloadEntries that did not register themselves", "nothing; one with a proxy has the Sidecar of its namespace, which was made without it"},
	OpenConnections: {"connections not seen", "no source sees these workloads' TCP connections, calls to pods of headless Services, hosts that came in by a wildcard, " +
		"or calls whose counters are gone", "kept for these workloads; metrics (" + MetricConnections + " too) or access logs would tell"},
	OpenUnknown:    {"unknown host", "no Service or ServiceEntry has this host now", "kept by name"},
	OpenByHand:     {"let in by hand", "", "left out; --always keeps them, for all workloads"},
	OpenUnwritable: {"no host", "no Service or ServiceEntry has it, and no Sidecar could name it", "not kept"},
}

// Words describes what is not covered: its name, the reason, and what was done.
func (o Open) Words() (name, why, done string) {
	w := openCatalogue[o.Code]
	name, why, done = w[0], w[1], w[2]
	switch o.Code {
	case OpenUnseen:
		if why = o.Why.String(); o.Idle {
			why += "; it has no pods now"
		}
		if done += ": " + o.Sidecar; o.Sidecar == "" {
			done = "keeps its scope in a Sidecar of its own"
		}
	case OpenByHand:
		why = "Sidecar " + o.Sidecar + ", which was not generated, lets them in by name, and no source saw a call to them by a workload that it governs"
	case OpenOwn:
		why = "Sidecar " + o.Sidecar + " governs it, which was not generated and selects its pods"
		if o.Fixed {
			why = "Sidecar " + o.Sidecar + " governs it, which has egress listeners with ports, addresses or capture modes"
		}
		if len(o.Hosts) > 0 {
			why += ", and leaves out hosts that it calls"
		}
	}
	return name, why, done
}

var unlisted = []struct{ kind, lacks string }{
	{"Pod", "workloads that no source names are unknown, and the Sidecars of their namespaces govern them too"},
	{"Sidecar", "existing ones are unknown, and a namespace must not have two without a selector"},
	{"VirtualService", "one in another namespace than its host may be left out, and so may a host from which one leads elsewhere"},
	{"HTTPRoute", "a Service from which a route of the Gateway API leads elsewhere may be left out"},
	{"Deployment", "workloads without pods are unknown, and get the Sidecar of their namespace when they run"},
}

// notes describes the limits of the observations and the inventory.
func (g *generator) notes() {
	add := func(format string, args ...any) {
		g.result.Notes = append(g.result.Notes, fmt.Sprintf(format, args...))
	}
	span := g.obs.span.Last.Sub(g.obs.span.First)
	switch {
	case g.obs.sources == Counters:
		add("Proxies' counters begin with the proxy and forget endpoints that are gone. Metrics or access logs of at least a week tell more.")
	case g.obs.sources&either != 0 && span < 7*24*hour:
		add("The sources with times cover %s: weekly calls may be missing.", spell(span.Round(time.Minute)))
	}
	for _, u := range unlisted {
		if !g.inv.Has(u.kind) {
			add("No list of %ss was given: %s.", u.kind, u.lacks)
		}
	}
}

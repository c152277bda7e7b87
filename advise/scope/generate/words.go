package generate

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
)

func spell(d time.Duration) string {
	switch {
	case d == 24*hour:
		return "24 h"
	case d > 24*hour && d%(24*hour) == 0:
		return fmt.Sprintf("%d days", d/(24*hour))
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Words say what is kept.
func (r Rule) Words() []string {
	window := "Every call that any source saw is kept, however rare."
	if r.Window > 0 {
		window = fmt.Sprintf("Every call that any source saw within %s before the newest observation is kept, however rare. Older ones are listed, and not kept.", spell(r.Window))
	}
	watched := "A workload that no source watched, or that neither called nor served anybody, keeps its scope."
	if r.Watched > 0 {
		watched += fmt.Sprintf(" So does one that was watched for less than %s.", spell(r.Watched))
	}
	return []string{window, "Declared calls and those in proxies' counters are kept whatever their age.", watched,
		fmt.Sprintf("A workload gets a Sidecar of its own if that of its namespace or of the mesh would lose more than %g%% of its saving.", 100*r.Exception)}
}

// Because says why a Sidecar is what it is.
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
		ReasonUnseenAll:  "Not narrowed: no source saw what the workloads of this namespace call.",
		ReasonUseless:    "Generated earlier, and no longer needed",
		ReasonTheirs:     "Not generated; left as it is",
	}[s.Reason]
}

// Because says why a kept call deserves a look.
func (k Kept) Because() string {
	switch k.Why {
	case KeptUnknown:
		return "no Service or ServiceEntry has this host now"
	case KeptHours:
		var out []string
		for h := range 24 {
			if k.Hours&(1<<h) != 0 {
				out = append(out, fmt.Sprintf("%02d:00-%02d:00 UTC", h, (h+1)%24))
			}
		}
		return "only at some hours of the day: " + strings.Join(out, ", ")
	case KeptOutside:
		return "called through the passthrough or black hole cluster: today's scope leaves it out"
	}
	switch k.Count {
	case 0:
		return "only the called side reports it"
	case 1:
		return "a single call"
	}
	return fmt.Sprintf("%d calls in all", k.Count)
}

// String says why it is not known what a workload calls.
func (u Uncovered) String() string {
	text := ""
	switch u.Code {
	case UncoveredUnwatched:
		text = "no source watched its proxy"
	case UncoveredLabels:
		text = "its metrics lack the label destination_service, which names whom it calls"
	case UncoveredCluster:
		text = fmt.Sprintf("its access log names clusters without a host, such as %.100q, %s (meshConfig.outboundClusterStatName?)", u.Name, words.Plural(u.N, "time"))
	case UncoveredMadeUp:
		text = fmt.Sprintf("its access log has more than %d unknown hosts that clients may have made up: an --inventory with Services and ServiceEntries would tell", u.N)
	case UncoveredPart:
		text = fmt.Sprintf("the counters of %d of its %d proxies were read", u.N, u.Of)
	case UncoveredRemote:
		text = "only those whom it called report its calls (" + u.Sources.String() + ")"
	case UncoveredServes:
		text = "it served, and no proxy of its namespace reports calls (" + u.Sources.String() + ")"
	case UncoveredSilent:
		text = "its proxy was watched (" + u.Sources.String() + "), and it neither called nor served anybody"
	case UncoveredYoung:
		text = fmt.Sprintf("it has existed for %s, less than %s, however far its sources (%s) reach back", spell(u.For.Round(time.Second)), spell(u.Least), u.Sources)
	case UncoveredShort:
		text = fmt.Sprintf("it was watched for %s (%s), less than %s", spell(u.For.Round(time.Second)), u.Sources, spell(u.Least))
	case UncoveredUndated:
		text = "it is not known how far back its metrics reach (--metrics-window says so)"
	}
	if u.Idle {
		text += "; it has no pods now"
	}
	return text
}

// Risk says what happens to a call to a host that a scope leaves out.
func (r Result) Risk() string {
	if r.RegistryOnly {
		return "a call to a host that a scope leaves out fails (outbound policy REGISTRY_ONLY)"
	}
	return "a call to a host that a scope leaves out goes through without mutual TLS, routes, retries and balancing, and a server with STRICT mutual TLS refuses it"
}

type openWords struct{ name, why, risk, done string }

const namespaceSidecar = "it has the Sidecar of its namespace if it runs"

var openCatalogue = map[OpenCode]openWords{
	OpenUnseen:      {"not known", "", "none: it keeps its scope, and costs what it costs", "keeps its scope"},
	OpenOwn:         {"Sidecar of its own", "", "none: its scope does not change", "left as it is"},
	OpenGone:        {"gone", "it called, and has no pods now", namespaceSidecar, "its hosts are kept in the Sidecar of its namespace"},
	OpenFinished:    {"gone", "a Job that has ended, which no CronJob made", namespaceSidecar, "nothing"},
	OpenPassthrough: {"outside of the mesh", "calls through the passthrough or black hole cluster", "none from a Sidecar; with outbound policy REGISTRY_ONLY they fail, before and after", "nothing to keep"},
	OpenProxyless:   {"no proxy", "pods without a sidecar", "once injected, they have the Sidecar of their namespace, and nobody saw what they call", "nothing"},
	OpenMachines: {"machines", "WorkloadEntries that did not register themselves, and may have proxies",
		"one with a proxy has the Sidecar of its namespace, which was made without it", "nothing"},
	OpenDNS: {"looked up only", "proxies answer DNS (ISTIO_META_DNS_CAPTURE), and no source sees what is only looked up",
		"a ServiceEntry's host that only this mesh knows is not found by a workload whose Sidecar leaves it out", "only hosts that were called are kept"},
	OpenConnections: {"connections not seen", "no source sees these workloads' TCP connections, calls to pods of headless Services, hosts that came in by a wildcard, or calls whose counters are gone",
		"bytes that may be of no use; metrics (" + MetricConnections + " too) or access logs would tell", "kept for these workloads"},
	OpenAlias:      {"external name", "calls to a Service of type ExternalName count for what it points to", "some bytes", "kept for every workload that sees them"},
	OpenUnwritable: {"no host", "no Service or ServiceEntry has it, and no Sidecar could name it", "none, if no proxy has such a host", "not kept"},
	OpenMadeUp:     {"no host", "no known Service or ServiceEntry has it, and a client may have written it into the log", "none, if no proxy has such a host", "not kept"},
	OpenManyMadeUp: {"no host", fmt.Sprintf("more than %d unknown hosts that clients may have written into the log", maxOutside), "none, if no proxy has such a host", "not kept"},
	OpenByHand:     {"let in by hand", "", "", "no longer let in; --always keeps them, for all workloads"},
}

// Words describe what is not covered: its name, the reason, the risk, and what was done.
func (r Result) Words(o Open) (name, why, risk, done string) {
	w := openCatalogue[o.Code]
	switch o.Code {
	case OpenUnseen:
		w.why = o.Why.String()
		if w.done += ": " + o.Sidecar; o.Sidecar == "" {
			w.done = "keeps its scope in a Sidecar of its own"
		}
	case OpenOwn:
		w.why = "Sidecar " + o.Sidecar + " governs it, which was not generated and selects its pods"
		if o.Fixed {
			w.why = "Sidecar " + o.Sidecar + " governs it, which has egress listeners with ports, addresses or capture modes"
		}
		if len(o.Hosts) > 0 {
			w.risk = "it calls hosts that this Sidecar leaves out; " + r.Risk()
		}
	case OpenByHand:
		w.why = "Sidecar " + o.Sidecar + ", which was not generated, lets them in by name, and no source saw a call to them by a workload that it governs"
		w.risk = r.Risk()
	case OpenManyMadeUp:
		w.why += ", " + words.Plural(o.Count, "time")
	}
	return w.name, w.why, w.risk, w.done
}

var unlisted = map[string]string{
	"Pod":            "workloads that no source names are unknown, and the Sidecars of their namespaces govern them too",
	"Sidecar":        "existing ones are unknown, and a namespace must not have two without a selector",
	"VirtualService": "one in another namespace than its host may be left out, and so may a host from which one leads elsewhere",
	"HTTPRoute":      "a Service from which a route of the Gateway API leads elsewhere may be left out",
	"Deployment":     "workloads without pods are unknown, and get the Sidecar of their namespace when they run",
}

// String describes a limitation for people.
func (n Note) String() string {
	switch n.Code {
	case NoteDeclared:
		return "Nothing was observed: the scopes are as good as the declared graph."
	case NoteCounters:
		return "Proxies' counters begin with the proxy and forget endpoints that are gone. Metrics or access logs of at least a week tell more."
	case NoteUndated:
		return "No source says how far back it reaches: rarer calls may be missing."
	case NoteBrief:
		return fmt.Sprintf("The sources with times cover %s: weekly calls may be missing.", spell(n.For.Round(time.Minute)))
	case NoteMetrics:
		return "It is not known how far back the metrics of a file reach, so no workload is narrowed that they alone watch. Say so with --metrics-window."
	case NoteNoList:
		return fmt.Sprintf("No list of %ss was given (--inventory): %s.", n.Kind, unlisted[n.Kind])
	case NoteAhead:
		return fmt.Sprintf("Some observations are %s ahead of this machine's clock; ages are counted from now.", spell(n.For.Round(time.Minute)))
	case NoteEverything:
		return fmt.Sprintf("The mesh's default lets in everything: workload %s in the root namespace was not seen, and no label tells its pods from others'.", n.Workload)
	case NoteKiali:
		return fmt.Sprintf("Kiali does not say by which host %s called %s; no host is kept for it.", n.Workload, n.To)
	}
	return n.Text
}

// String describes another way for people.
func (o Other) String() string {
	text := ""
	if o.Kind == "exportTo" {
		where := "its own namespace"
		if o.Value != "." {
			where = "these namespaces"
		}
		text = "called only from " + where + ": exportTo (for a Service the annotation networking.istio.io/exportTo) keeps it from all other proxies, gateways included"
	} else {
		text = fmt.Sprintf("no sidecar runs there and nobody in the mesh calls their %s: with meshConfig.discoverySelectors istiod does not watch them", words.Plural(o.Services, "Service"))
	}
	if o.Unseen > 0 {
		text += fmt.Sprintf("; %s may call them too", words.Plural(o.Unseen, "unseen workload or gateway"))
	}
	return text
}

package assess

import (
	"slices"

	"github.com/meshtrial/meshtrial/internal/note"
)

// Sections of an assessment, in their order.
const (
	SectionMesh          = "mesh"
	SectionTraffic       = "traffic"
	SectionCost          = "cost"
	SectionLimits        = "limits"
	SectionConfiguration = "configuration"
	SectionModes         = "modes"
	SectionCapacity      = "capacity"
)

// Sections are all of those.
var Sections = []string{SectionMesh, SectionTraffic, SectionCost, SectionLimits, SectionConfiguration, SectionModes, SectionCapacity}

// A Gap is a kind of thing that can be unknown.
type Gap struct {
	section string
	kind    *note.Kind
	gives   *note.Kind
}

func gap(section, code, says, gives string) Gap {
	return Gap{section, note.Define("assess_"+code, says), note.Define("assess_"+code+"_by", gives)}
}

// Of is an unknown of this kind.
func (g Gap) Of(args ...any) Unknown {
	return Unknown{Section: g.section, What: g.kind.Of(args...), By: g.gives.Of()}
}

// In reports whether one of the unknowns is of this kind.
func (g Gap) In(all []Unknown) bool {
	return slices.ContainsFunc(all, func(u Unknown) bool { return u.What.Is(g.kind) })
}

// Unknown is something that was not seen.
type Unknown struct {
	Section string    `json:"section"`
	What    note.Note `json:"what"`
	By      note.Note `json:"by"` // what would give it
}

// measure holds a rule's own words for what would decide it.
var measure = note.Define("assess_undecided_measure", "%v")

// What may be unknown.
var (
	NotRead        = gap(SectionMesh, "not_read", "%v", "the right that is named, or an answer from what did not answer")
	FileNotRead    = gap(SectionMesh, "file_not_read", "a file that could not be read: %v", "a whole file")
	FilesNotRead   = gap(SectionMesh, "files_not_read", "what %d more files have to tell: they could not be read, or an assessment does not read what they hold", "fewer files at a time")
	FileUnknown    = gap(SectionMesh, "file_unknown", "what is in %d of the files, such as %v: nothing that an assessment reads", "the files that docs/assess.md lists")
	FileNameless   = gap(SectionMesh, "file_nameless", "what file %v tells: it is an answer of Prometheus to an expression, whose series have no names", "an answer to the metric itself, such as istio_requests_total, from query_range or twice from query")
	OnePage        = gap(SectionLimits, "one_page", "rates of istiod: there is one metrics page of each replica, or pages without a time between them", "a second page, some minutes later; --apart where istiod does not tell its age")
	Replaced       = gap(SectionLimits, "replaced", "%d istiods that were last read before another one started: they may have been replaced, and are not counted", "two pages of each istiod that runs")
	OtherRevisions = gap(SectionLimits, "other_revisions", "istiod and the mesh's configuration of other revisions (%s): those of revision %s were read", "--revision")
	OtherIstiods   = gap(SectionLimits, "other_istiods", "what limits the other istiods: there are metrics pages of %s, and those of %s were read", "an assessment with the metrics pages of one revision")
	PagesUnplaced  = gap(SectionLimits, "pages_unplaced", "whether all istiods whose metrics count together are of one revision: nothing says of which pod %d of them are", "the pod's name in the file's, and kubectl get pods -A -o json")
	SeveralIstiods = gap(SectionLimits, "several_istiods", "which istiod what Prometheus tells is of: it has series of versions %s, which count together", "--prometheus-selector with the labels of one revision")
	Elsewhere      = gap(SectionMesh, "elsewhere", "%d of the %d proxies that are connected to istiod: they are in no pod that was listed, so counts, traffic and cost lack them", "an assessment of each cluster whose proxies use this istiod; proxies on virtual machines cannot be read")
	MoreNotRead    = gap(SectionMesh, "more_not_read", "%d more like those", "what is said of those")
	NoKind         = gap(SectionMesh, "objects_not_listed", "how many %s there are: %v", "the right to list them")

	// Prometheus.
	NoPrometheus    = gap(SectionMesh, "no_prometheus", "what Prometheus tells: %v", "the address of a Prometheus server that answers, and --prometheus-header if it asks who you are")
	NotScraped      = gap(SectionMesh, "not_scraped", "what %s tells: Prometheus has none of it in the last %.0f s", "a scrape job for proxies (port 15020), istiod (15014) or the kubelets' cAdvisor")
	Native          = gap(SectionMesh, "native_histograms", "what %v tell: they are native histograms, which are not read", "classic histograms: always_scrape_classic_histograms: true in the scrape job")
	SeveralClusters = gap(SectionMesh, "several_clusters", "what Prometheus tells: it has series of several clusters (%s)", "--prometheus-selector with one of them; of saved answers, the answers of one")
	ShortHistory    = gap(SectionMesh, "short_history", "what was before: Prometheus has %.0f s of the last %.0f s, and rates are over these", "another assessment later, or less --duration")
	NoRates         = gap(SectionMesh, "no_rates", "rates of %s: no series has two samples, in %.0f s", "more --duration, or of files a second answer some minutes later")
	TimesDiffer     = gap(SectionMesh, "times_differ", "what %s tells: most of its series were sampled for less than the time from the first sample to the last", "answers to one query_range, or to the same query twice")
	NoContainers    = gap(SectionCost, "no_containers", "CPU and memory of proxies by Prometheus: its series of %s name no container of a proxy or istiod", "a scrape job for the kubelets' /metrics/resource; cAdvisor names no containers where it does not reach the container runtime")
	NoPods          = gap(SectionMesh, "no_pods", "which pods have proxies: pods were not listed; %d are known by their containers' metrics, and those without another container count as gateways", "the right to list pods, or kubectl get pods -A -o json")
	NotReached      = gap(SectionLimits, "not_reached", "istiod's settings, locks and who writes what: istiod was not reached (%v), and its metrics are from Prometheus", "the right to open port-forwards to istiod's pods")
	IstiodTwice     = gap(SectionLimits, "istiod_twice", "what limits istiod: Prometheus has its metrics several times (%s), and no scrape job has those of all %d replicas once", "--prometheus-selector with the labels of one of them")

	RequestsDiffer = gap(SectionTraffic, "requests_differ", "how many requests left the pods of %d sidecars: %.1f/s by their counters, %.1f/s by Prometheus", "another assessment with more --duration; a proxy that is scraped twice, or partly")
	Unscraped      = gap(SectionTraffic, "unscraped", "requests of %d of %d sidecars: Prometheus does not scrape them", "a scrape job for port 15020 of their pods")
	NoReporter     = gap(SectionTraffic, "no_reporter", "requests of each proxy: Prometheus has no istio_requests_total with reporter=%q, but of the other side", "metric_relabel_configs that keep both")
	NoPodLabel     = gap(SectionTraffic, "no_pod_label", "requests of each proxy: the series of Prometheus do not name pods", "the labels namespace and pod in the scrape job, by relabel_configs")
	NoHTTPOpen     = gap(SectionTraffic, "no_http_connections", "how many connections carry HTTP requests: Istio's metrics and access logs do not tell", "the counters of the proxies' clusters (cx_active), from the mesh or with --from")
	UsageDiffers   = gap(SectionCost, "usage_differs", "CPU of %d of kind %s: %.2f cores by the kubelets, %.2f by Prometheus", "another assessment with more --duration")

	NoCounters       = gap(SectionTraffic, "no_counters", "requests of the proxies: their counters were not read twice", "the right to open port-forwards to pods, and sidecars that run; with --from, their counters twice, or answers of Prometheus")
	SomeProxies      = gap(SectionTraffic, "some_proxies", "requests, calls and configuration of %d of %d sidecars, which were not read", "--proxies 0")
	SomeCounted      = gap(SectionTraffic, "some_counted", "requests and calls of %d of %d sidecars: nothing that was read counts them", "two readings of their counters, their access logs, or answers of Prometheus")
	CountersFell     = gap(SectionTraffic, "counters_fell", "requests of %d sidecars, such as that of pod %s: a counter fell between two readings, since an endpoint went or the proxy restarted", "another assessment, while fewer pods come and go")
	Passthrough      = gap(SectionTraffic, "passthrough", "requests of %d sidecars to hosts that are in no Service or ServiceEntry, or to ports that are in none: they cost CPU, and are not counted", "ServiceEntries and ports of Services for them")
	NoGateways       = gap(SectionTraffic, "no_gateways", "requests of gateways and waypoints, of which there are %d: the counters of sidecars alone are read", "Istio's own metrics of these proxies")
	NoPayloads       = gap(SectionTraffic, "no_payloads", "sizes of requests and answers: nothing that was read tells", "Istio's own metrics istio_request_bytes and istio_response_bytes, in the proxies or in Prometheus, or access logs")
	NoPolicies       = gap(SectionTraffic, "policies_not_read", "which requests need L7: %v were not listed", "the right to list them; with --from, lists of them")
	NoAmbient        = gap(SectionTraffic, "no_ambient_traffic", "requests of %d pods that ztunnels carry: ztunnel counts connections and bytes, not requests", "waypoints, or the applications' own metrics")
	NoRequests       = gap(SectionTraffic, "no_requests", "what requests cost: hardly any passed the sidecars in %.0f s", "assess while there is traffic, or with more --duration")
	ProxiesLate      = gap(SectionTraffic, "proxies_late", "what %d of %d sidecars hold and pass: they had not answered after %.0f s, the time for reading all of them", "a longer --duration, or fewer --proxies")
	CountedOnce      = gap(SectionTraffic, "counted_once", "requests of %d proxies: their counters were read once, or nobody says how long apart", "the same pages again some minutes later, or a second bug-report; --apart where files do not tell their times")
	CountersNameless = gap(SectionTraffic, "counters_nameless", "counters of %d files: they do not say of which pod they are", "the pod's name in the file's, and kubectl get pods -A -o json")
	LogsBrief        = gap(SectionTraffic, "logs_brief", "requests of %d access logs: they cover less than a second", "longer logs")
	LogsFiltered     = gap(SectionTraffic, "logs_filtered", "requests of %d access logs: all that they have failed, so that a filter leaves out the others", "logs without the filter of a Telemetry resource")
	LogsNameless     = gap(SectionTraffic, "logs_nameless", "who calls, of %d access logs: they do not say of which pod they are", "kubectl logs --prefix, or the pod's name in the file's, and kubectl get pods -A -o json")
	LogsLong         = gap(SectionTraffic, "logs_long", "requests on %d lines of access logs: the lines are longer than 1 MB", "access logs without the fields that are so long")

	NoUsage     = gap(SectionCost, "no_usage", "CPU and memory of proxies on %d nodes, such as %s: %v", "the right to get nodes/proxy, which the kubelet's metrics take, and kubelets that answer")
	UnknownUse  = gap(SectionCost, "unknown_use", "CPU and memory of %d of %d of kind %s: nobody had two samples of them", "more --duration, since kubelets sample every 10 to 20 s; with --from, answers of Prometheus")
	NoSlope     = gap(SectionCost, "no_slope", "what a sidecar uses without requests, and what each request adds: %d sidecars with known CPU and requests do not tell them apart", "sidecars that differ in their requests, or a study: it sets the rate")
	NoLatency   = gap(SectionCost, "no_latency", "what sidecars add to latency: a mesh that only runs with them does not tell", "the study sidecar-latency of this assessment, then --with its run")
	NoResources = gap(SectionCost, "no_resources", "what proxies request and are limited to: Prometheus has no %s", "kube-state-metrics, or kubectl get pods -A -o json")
	NoPrices    = gap(SectionCost, "no_prices", "money: no prices were stated", "--core-month and --gb-month")
	NotWatched  = gap(SectionLimits, "not_watched", "what limits istiod: %v", "the right to open port-forwards to istiod's pods")
	NoPage      = gap(SectionLimits, "no_page", "what limits istiod: there is no metrics page of it", "metrics pages of each istiod, two some minutes apart")
	Undecided   = gap(SectionLimits, "undecided", "rule %s: %v", "evidence of what it asks for")
	NoConfig    = gap(SectionConfiguration, "no_configuration", "bytes of configuration by owner: %v", "the right to open port-forwards to pods")
	NoScopes    = gap(SectionConfiguration, "no_scopes", "what Sidecars would save: %v", "meshtrial assess config --generate, with access logs or Prometheus beside the proxies' counters")
	TooYoung    = gap(SectionConfiguration, "too_young", "what %d workloads call: their proxies were watched for less than a day, or neither called nor served anybody", "assess again when they have run for a day")
	NoUnitCosts = gap(SectionModes, "no_unit_costs", "whether sidecars or ambient take less for this mesh: no unit costs were measured", "the study sidecars-or-ambient of this assessment, then --with its run")
	NoStated    = gap(SectionModes, "mesh_not_stated", "whether sidecars or ambient take less for this mesh: %s is unknown", "what the section on traffic lacks")
	OtherBuild  = gap(SectionModes, "other_version", "how far the unit costs of run %s hold: they are of Istio %s, this mesh is %s", "the same study with this mesh's version")
	NoOwnModel  = gap(SectionCapacity, "no_own_model", "how far istiod is from its limits on this mesh's machines: the capacity model was measured on another one", "the study istiod-capacity of this assessment, then meshtrial assess capacity fit, and --model")
	OtherModel  = gap(SectionCapacity, "other_model", "how far the capacity model holds: its run %s is of istiod %s, this mesh has %s", "the study istiod-capacity with this mesh's version, then --model")
	NoCapacity  = gap(SectionCapacity, "no_prediction", "how far istiod is from its limits: %v", "what is named, or meshtrial assess capacity predict with the figures stated")
)

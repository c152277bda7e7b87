package assess

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/internal/note"
)

// Study is a study that would settle something that is unknown of this mesh.
type Study struct {
	Name  string    `json:"name"` // of its file too, without .yaml
	Asks  note.Note `json:"asks"`
	After note.Note `json:"after"` // what to do with its run
	File  string    `json:"file"`
}

// Names of studies.
const (
	StudyLatency  = "sidecar-latency"
	StudyModes    = "sidecars-or-ambient"
	StudyFilters  = "envoy-filters"
	StudyCapacity = "istiod-capacity"
	StudyScope    = "sidecar-scope"
	StudyReplica  = "replica-loss"
)

// Studies are the names of all.
var Studies = []string{StudyLatency, StudyModes, StudyFilters, StudyCapacity, StudyScope, StudyReplica}

var (
	asksLatency  = note.Define("assess_asks_latency", "What do sidecars add to latency and CPU at this mesh's rate per sidecar?")
	asksModes    = note.Define("assess_asks_modes", "Do sidecars or ambient take less for this mesh?")
	asksFilters  = note.Define("assess_asks_filters", "What do this mesh's own EnvoyFilters add to latency and CPU?")
	asksCapacity = note.Define("assess_asks_capacity", "What does istiod spend on changes, proxies and services, up to this mesh's size?")
	asksScope    = note.Define("assess_asks_scope", "What do Sidecars change for istiod, with this mesh's proxies and Services?")
	asksReplica  = note.Define("assess_asks_replica", "How long are this mesh's sidecars without configuration when all connections to istiod drop?")

	afterReport = note.Define("assess_after_report", "read its report")
	afterWith   = note.Define("assess_after_with", "meshtrial assess --with RUN")
	afterFit    = note.Define("assess_after_fit", "meshtrial assess capacity fit RUN -o model.json, then meshtrial assess --model model.json")
)

// Bounds of what a study simulates: a lab on one machine carries no more.
const (
	mostSimulated = 2000
	mostServices  = 1000
)

// settle writes the studies for what is unknown of this mesh, and for what would change it.
func (a *Assessment) settle(e Evidence) {
	a.Settle = []Study{}
	add := func(name string, asks, after *note.Kind, file string) {
		a.Settle = append(a.Settle, Study{name, asks.Of(), after.Of(), "name: " + name + "\n" + strings.TrimLeft(file, "\n")})
	}
	sidecars, load := a.Mesh.Count(Sidecar), a.eachLoad(e.Proxies)
	if sidecars > 0 {
		add(StudyLatency, asksLatency, afterWith, latencyStudy(load))
	}
	if sidecars+a.Mesh.Enrolled > 0 {
		add(StudyModes, asksModes, afterWith, modesStudy(a.sizingLine(), load))
	}
	if sidecars > 0 && len(e.Filters) > 0 {
		add(StudyFilters, asksFilters, afterReport, filtersStudy(e.Filters, load))
	}
	services, listed := a.Mesh.Objects["Service"]
	if !listed && a.Capacity != nil {
		services = a.Capacity.Mesh.Services // those that istiod counts
	}
	services = bounded(services, mostServices)
	proxies := bounded(sidecars+a.Mesh.Count(Gateway)+a.Mesh.Count(Waypoint), mostSimulated)
	if a.Mesh.Count(Istiod) == 0 {
		return
	}
	world := a.world()
	if e.Model == nil || e.ModelShipped {
		add(StudyCapacity, asksCapacity, afterFit, capacityStudy(proxies, services, a.changes(), world))
	}
	if c := a.Configuration; c != nil && c.Saving != nil && c.Sidecars > 0 {
		add(StudyScope, asksScope, afterReport, scopeStudy(proxies, services, a.namespacesSimulated(services), a.changes(), world))
	}
	add(StudyReplica, asksReplica, afterReport, replicaStudy(proxies, services, a.namespacesSimulated(services), world))
}

// world are settings of control-plane studies that are this mesh's: unused configuration by kind, and istiod's
// settings that decide how it pushes. Its CPU and memory are left to the lab's machine.
func (a *Assessment) world() (out string) {
	for _, kind := range []struct{ object, factor string }{
		{"ServiceEntry", "service_entries"}, {"VirtualService", "virtual_services"}, {"DestinationRule", "destination_rules"}, {"AuthorizationPolicy", "authorization_policies"},
	} {
		if n := min(a.Mesh.Objects[kind.object], mostServices); n > 0 {
			out += fmt.Sprintf(", %s: %d", kind.factor, n)
		}
	}
	for _, s := range a.Mesh.Settings {
		if slices.Contains(pushSettings, s.Name) {
			out += fmt.Sprintf(", %s: %q", s.Name, s.Level)
		}
	}
	return out
}

// pushSettings are levers of istiod that decide when and what it pushes.
var pushSettings = []string{"debounce_after", "debounce_max", "eds_debounce", "push_throttle", "request_limit", "delta", "xds_cache"}

// namespacesSimulated are as many as the mesh has, as far as a lab has use for them.
func (a *Assessment) namespacesSimulated(services int) int {
	return min(max(2, a.Mesh.Namespaces), 20, services)
}

// eachLoad is what a sidecar of this mesh has to do, as a study sends it.
type eachLoad struct {
	rate        float64 // requests per second; 0 if unknown
	connections int     // 0 if unknown
	sizes       *Sizes
	proxy       string // settings of the proxies
}

func (a *Assessment) eachLoad(proxies []Proxy) eachLoad {
	l := eachLoad{rate: a.eachRate(), proxy: proxySettings(proxies)}
	if t := a.Traffic; t != nil {
		l.sizes = t.Sizes
		if t.Carrying != nil {
			l.connections = min(max(1, int(math.Round(*t.Carrying))), mostConnections)
		}
	}
	return l
}

// Bounds of what a study sends: a lab on one machine carries no more.
const (
	mostConnections = 256
	mostBody        = 1 << 20 // bytes
)

// settings are those of the requests and of the proxies. usual is the number of connections where it is not known;
// 0 leaves it out.
func (l eachLoad) settings(usual int) string {
	payload, connections := "1KiB", ""
	if l.sizes != nil {
		payload = body(l.sizes.Request)
	}
	if n := cmp.Or(l.connections, usual); n > 0 {
		connections = fmt.Sprintf("connections: %d, ", n)
	}
	return fmt.Sprintf("%sarrival: poisson, protocol: http1, payload: %s, mtls: strict%s", connections, payload, l.proxy)
}

// assumed are comments on what the mesh does not tell.
func (l eachLoad) assumed(connections string) (out string) {
	if l.sizes == nil {
		out = "# The mesh does not tell the sizes of its requests and answers: 1KiB is assumed.\n"
	}
	if l.connections == 0 {
		out += "# The mesh does not tell how many connections carry its requests: " + connections + ".\n"
	}
	return out
}

// trials are how studies of the data plane measure, within a time limit.
func (l eachLoad) trials(limit string) string {
	response := "echo"
	if l.sizes != nil {
		response = body(l.sizes.Response)
	}
	return `workload: {response: ` + response + `, service_time: {distribution: fixed, mean: 0s}}
warmup: {min: 500ms, max: 2s}
window: 2s
interval: 250ms
blocks: {min: 4, max: 8, limit: ` + limit + `}
measures: [latency, cpu, memory, connections, pressure]`
}

// body is a size in bytes, as studies have it.
func body(bytes float64) string { return fmt.Sprintf("%.0fB", math.Min(math.Max(bytes, 0), mostBody)) }

// proxySettings are what most sidecars have: worker threads, and a CPU limit.
func proxySettings(proxies []Proxy) (out string) {
	most := func(of func(Proxy) string) string {
		counts := map[string]int{}
		for _, p := range proxies {
			if p.Kind == Sidecar {
				counts[of(p)]++
			}
		}
		best := ""
		for _, level := range slices.Sorted(maps.Keys(counts)) {
			if counts[level] > counts[best] {
				best = level
			}
		}
		return best
	}
	if threads := most(func(p Proxy) string {
		if p.Threads < 1 || p.Threads > 128 {
			return ""
		}
		return strconv.Itoa(p.Threads)
	}); threads != "" {
		out += ", concurrency: " + threads
	}
	if limit := most(func(p Proxy) string {
		if p.Limits.Cores < 0.01 || p.Limits.Cores > 1000 { // no level of a study
			return ""
		}
		return fmt.Sprintf("%.0fm", 1000*p.Limits.Cores)
	}); limit != "" {
		out += ", cpu_limit: " + limit
	}
	return out
}

// bounded keeps a number between what a study needs and what a lab carries.
func bounded(n, most int) int { return min(max(n, 10), most) }

// eachRate is the requests per second that pass a sidecar, on the mean of those that were read; 0 if unknown.
func (a *Assessment) eachRate() float64 {
	t := a.Traffic
	if t == nil || t.Read == 0 {
		return 0
	}
	return (t.Called + t.Served) / float64(t.Read)
}

// changes are those per second that istiod saw, as far as a lab makes them; 1 where it saw none.
func (a *Assessment) changes() float64 {
	if a.Limits != nil {
		for _, v := range a.Limits.Values {
			if v.Name == advice.QuantityUpdates && v.Value > 0 {
				return math.Min(math.Max(math.Round(10*v.Value)/10, 0.1), 20)
			}
		}
	}
	return 1
}

// rates are levels of the factor rate around that of a sidecar: enough requests for a window, and three
// of them, since the first requests of a second cost more than later ones.
func rates(each float64) string {
	if each <= 0 {
		return "[20, 200, 1000]"
	}
	middle := math.Min(math.Max(math.Round(each), 60), 2000)
	return fmt.Sprintf("[%.0f, %.0f, %.0f]", math.Max(20, math.Round(middle/4)), middle, 4*middle)
}

// sizingLine is the section sizing of this mesh, with what is unknown of it left to the default.
func (a *Assessment) sizingLine() string {
	m, lacks := a.Stated()
	switch {
	case lacks == "":
		return fmt.Sprintf("sizing: {pods: %.0f, nodes: %.0f, rps: %.0f, l7: %.1f%%, waypoints: %.0f}", m.Pods, m.Nodes, m.RPS, 100*m.L7, m.Waypoints)
	case m.RPS > 0:
		return fmt.Sprintf("# Which requests of this mesh need L7 is not known: state it with --set sizing.l7=... when you read the report.\nsizing: {pods: %.0f, nodes: %.0f, rps: %.0f}", m.Pods, m.Nodes, m.RPS)
	}
	return fmt.Sprintf("# The requests of this mesh are not known: state them with --set sizing.rps=... when you read the report.\nsizing: {pods: %d, nodes: %d}",
		max(1, a.Mesh.Count(Sidecar)+a.Mesh.Enrolled), max(1, a.Mesh.Nodes))
}

func latencyStudy(l eachLoad) string {
	connections := ""
	if l.connections == 0 {
		connections = "\n  connections: [4, 32]"
	}
	return fmt.Sprintf(`
question: What do sidecars add to latency and CPU at this mesh's rate?
%smesh: istio
settings: {%s}
factors:
  rate: %s%s
  sidecars: [none, both]
baseline: {sidecars: none}
%s
`, l.assumed("they are varied"), l.settings(0), rates(l.rate), connections, l.trials("15m"))
}

func modesStudy(sizing string, l eachLoad) string {
	return fmt.Sprintf(`
question: Do sidecars or ambient take less for this mesh?
# In the local lab ambient takes a ztunnel: --ztunnel DIR (docs/lab.md). Without one: --set sidecars=[none,both].
%smesh: istio
settings: {%s, telemetry: off}
factors:
  rate: %s
  sidecars: [none, both, ambient, waypoint]
baseline: {sidecars: none}
%s
%s
`, l.assumed("16 are assumed"), l.settings(16), rates(l.rate), l.trials("20m"), sizing)
}

func capacityStudy(proxies, services int, changes float64, world string) string {
	part := func(n, of int) int { return n / of }
	proxies, services = max(80, proxies), max(80, services) // a fit takes sizes that differ
	return fmt.Sprintf(`
question: What does istiod spend on changes, proxies and services, up to this mesh's size?
control: {duration: 16s, settle: 3m, quiet: 500ms, idle: 2s}
settings: {endpoints: 2, namespaces: 4, change: mixed, change_rate: %g, istiod_replicas: 1%s}
variants:
  few-of-both: {proxies: %d, services: %d}
  many-sidecars: {proxies: %d, services: %d}
  many-services: {proxies: %d, services: %d}
  half: {proxies: %d, services: %d}
  this-mesh: {proxies: %d, services: %d}
  faster: {proxies: %d, services: %d, change_rate: %g}
baseline: {variant: few-of-both}
measures: [convergence, amplification, config, cost]
blocks: {min: 2, max: 3, limit: 40m}
`, changes, world, part(proxies, 8), part(services, 8), part(proxies, 2), part(services, 8), part(proxies, 8), part(services, 2),
		part(proxies, 2), part(services, 2), proxies, services, part(proxies, 2), part(services, 2), math.Round(40*changes)/10)
}

func scopeStudy(proxies, services, namespaces int, changes float64, world string) string {
	return fmt.Sprintf(`
question: What do Sidecars change for istiod, with this mesh's proxies and Services?
# Each namespace sees itself and istio-system with a Sidecar; the generated ones may let in more.
control: {duration: 16s, settle: 2m, quiet: 500ms, idle: 2s}
settings: {proxies: %d, services: %d, namespaces: %d, endpoints: 2, change: endpoints-scale, change_rate: %g%s}
variants:
  none: {}
  namespaces: {sidecar_scope: mesh}
baseline: {variant: none}
measures: [convergence, amplification, config, cost]
blocks: {min: 3, max: 5, limit: 20m}
`, proxies, services/namespaces*namespaces, namespaces, changes, world)
}

func replicaStudy(proxies, services, namespaces int, world string) string {
	return fmt.Sprintf(`
question: How long are this mesh's sidecars without configuration when all connections to istiod drop?
control: {changes: 1, settle: 2s, quiet: 500ms, idle: 1s, aftermath: 2m}
settings: {proxies: %d, services: %d, endpoints: 2, namespaces: %d, change: no-op%s}
variants:
  dropped: {disruption: drop}
  killed: {disruption: kill}
baseline: {variant: dropped}
measures: [recovery, cost]
blocks: {min: 2, max: 3, limit: 30m}
`, proxies, services/namespaces*namespaces, namespaces, world)
}

// filtersStudy has the EnvoyFilters themselves, so that the file is all it takes.
func filtersStudy(filters []Filter, l eachLoad) string {
	var levels, files []string
	for _, f := range filters {
		levels = append(levels, "envoyfilter-"+f.Name)
		files = append(files, fmt.Sprintf("  %s: {inline: '%s'} # %s", f.Name, strings.ReplaceAll(f.Patches, "'", "''"), f.Of))
	}
	return fmt.Sprintf(`
question: What do this mesh's own EnvoyFilters add to latency and CPU?
# The server's sidecar has one at a time. One that the lab's Envoy refuses, or that asks for a service that the lab
# does not have, is said and left out.
%smesh: istio
settings: {sidecars: both, %s}
factors:
  rate: %s
  filters: [none, %s]
envoy_filters:
%s
baseline: {filters: none}
%s
`, l.assumed("16 are assumed"), l.settings(16), rates(l.rate), strings.Join(levels, ", "), strings.Join(files, "\n"), l.trials("20m"))
}

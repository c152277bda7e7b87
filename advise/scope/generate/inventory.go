package generate

import (
	"cmp"
	"maps"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// Host is what a Sidecar lets in: the full name of a Service or a host of a ServiceEntry, with its
// namespace; * if that is unknown.
type Host struct {
	Namespace string `json:"namespace"`
	Name      string `json:"host"`
}

// String is NAMESPACE/HOST, as in an egress listener.
func (h Host) String() string { return h.Namespace + "/" + h.Name }

// hostsOf returns the sorted keys of a map.
func hostsOf[V any](m map[Host]V) []Host {
	out := make([]Host, 0, len(m))
	for h := range m {
		out = append(out, h)
	}
	sortHosts(out)
	return out
}

func sortHosts(all []Host) {
	sort.Slice(all, func(i, j int) bool { return compareHosts(all[i], all[j]) < 0 })
}

func compareHosts(a, b Host) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Service is a Service or one host of a ServiceEntry.
type Service struct {
	Host
	Object   string // "Service ns/name" or "ServiceEntry ns/name"
	Entry    bool   // a ServiceEntry's
	Ports    int
	TCP      bool // has a port whose requests the mesh cannot tell apart
	Headless bool
	// Direct says that its endpoints are wherever callers connect to (ORIGINAL_DST) or what DNS
	// returns: proxies drop the counters of those that are gone.
	Direct   bool
	Selector map[string]string // of the pods that are its endpoints
	// Since is when the oldest endpoint came; At says that it is known.
	Since    time.Time
	At       bool
	External bool   // of type ExternalName
	Alias    string // the host that it stands for
	ExportTo []string
}

// visibleTo reports whether exportTo of an object in the namespace own includes another namespace.
func visibleTo(exportTo []string, own, namespace string) bool {
	if len(exportTo) == 0 {
		return true
	}
	for _, to := range exportTo {
		if to == "*" || to == namespace || to == "." && own == namespace {
			return true
		}
	}
	return false
}

// Pods summarises the pods of a workload.
type Pods struct {
	Number  int
	Proxied int               // with a sidecar
	Gateway bool              // whose proxies are gateways or waypoints
	Labels  map[string]string // that all pods have
	Since   time.Time         // when the first of them that is there started, if known

	any  map[[2]string]bool // labels that some pod has
	idle bool               // none is there now
}

// end is a pod as an endpoint of Services.
type end struct {
	labels map[string]string
	since  time.Time // when it became one; zero if nobody knows
}

// controller is a Deployment, StatefulSet, DaemonSet or CronJob.
type controller struct {
	Workload
	labels map[string]string
	inject string // sidecar.istio.io/inject of its template
}

// Inventory is what is in the mesh.
type Inventory struct {
	Domain string // of the cluster
	Root   string // namespace of the mesh's configuration
	// Outbound is the mesh's outbound policy, and Capture whether proxies
	// answer DNS.
	Outbound string
	Capture  bool

	namespaces map[string]map[string]string // their labels
	services   map[Host]*Service
	byName     map[string][]Host
	workloads  map[Workload]*Pods
	within     map[string][]Workload // by namespace
	pods       map[Workload]Workload // by namespace and the pod's name
	ends       map[string][]end      // by namespace
	virtual    []virtualService
	rules      map[scope.Owner]string // hosts of DestinationRules
	existing   []Sidecar
	needs      []need
	added      map[string]bool        // clusters of EnvoyFilters
	machines   map[string]int         // WorkloadEntries by namespace that may have no proxy
	born       map[Workload]time.Time // when what makes their pods was made
	finished   map[Workload]bool      // Jobs that nobody runs by the clock
	selectors  bool                   // the mesh has discoverySelectors
	configured bool                   // its configuration was read
	read       map[string]bool

	controllers           []controller
	exports, routeExports []string // by default, of Services and of VirtualServices
}

// need is a host that the mesh's own configuration names.
type need struct {
	namespace string // whose proxies need it, "" for all
	host      string // namespace/host, or a host
	why       string
	ifKnown   bool // none if the mesh does not know it
}

// NewInventory returns an empty mesh.
func NewInventory() *Inventory {
	return &Inventory{Domain: "cluster.local", Root: "istio-system", Outbound: "ALLOW_ANY",
		namespaces: map[string]map[string]string{}, services: map[Host]*Service{}, byName: map[string][]Host{}, workloads: map[Workload]*Pods{},
		within: map[string][]Workload{}, pods: map[Workload]Workload{}, ends: map[string][]end{}, rules: map[scope.Owner]string{}, read: map[string]bool{}, added: map[string]bool{}, machines: map[string]int{}, finished: map[Workload]bool{}, born: map[Workload]time.Time{}}
}

// Has reports whether objects of a kind were read; for ConfigMap, whether the mesh's was.
func (inv *Inventory) Has(kind string) bool {
	if kind == "ConfigMap" {
		return inv.configured
	}
	return inv.read[kind]
}

// AddProxy adds a proxy's workload and the hosts in its configuration, unless lists of pods and
// services were read.
func (inv *Inventory) AddProxy(p scope.Proxy) {
	if n := p.Node; n != nil && !inv.Has("Pod") {
		inv.addPod(Workload{n.Namespace, n.Workload}, p.Name, n.Labels, true, n.Type != "sidecar")
	}
	for _, c := range p.Clusters {
		_, _, _, host, ok := scope.SplitCluster(c.Name)
		if !ok || c.Owner.Kind != "Service" && c.Owner.Kind != "ServiceEntry" && c.Owner.Kind != "DestinationRule" {
			continue
		}
		h := Host{c.Owner.Namespace, host}
		if c.Owner.Kind == "DestinationRule" { // of a subset: its host is another's
			inv.rules[c.Owner] = host
			continue
		}
		if inv.services[h] == nil && !inv.Has(c.Owner.Kind) {
			inv.addService(Service{Host: h, Object: c.Owner.String(), Entry: c.Owner.Kind == "ServiceEntry", Ports: 1})
		}
	}
}

// addPod counts a pod once, however often it is listed.
func (inv *Inventory) addPod(w Workload, name string, labels map[string]string, proxied, gateway bool) {
	if _, known := inv.pods[Workload{w.Namespace, name}]; known {
		return
	}
	p := inv.workloads[w]
	if p == nil {
		p = &Pods{Labels: maps.Clone(labels), any: map[[2]string]bool{}}
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		inv.workloads[w] = p
		inv.within[w.Namespace] = append(inv.within[w.Namespace], w)
	}
	p.idle = false
	p.Number++
	if proxied {
		p.Proxied++
	}
	p.Gateway = p.Gateway || gateway
	for key, value := range labels {
		p.any[[2]string{key, value}] = true
	}
	maps.DeleteFunc(p.Labels, func(key, value string) bool { return labels[key] != value })
	inv.pods[Workload{w.Namespace, name}] = w
}

// addIdle adds a workload without pods, unless it has some.
func (inv *Inventory) addIdle(w Workload, labels map[string]string) {
	if inv.workloads[w] == nil {
		p := &Pods{Labels: maps.Clone(labels), any: map[[2]string]bool{}, idle: true}
		for key, value := range labels {
			p.any[[2]string{key, value}] = true
		}
		inv.workloads[w] = p
		inv.within[w.Namespace] = append(inv.within[w.Namespace], w)
	}
}

// idle adds workloads without pods that will have sidecars, by the rules of istiod's webhook: the
// template's label, or the namespace's.
func (inv *Inventory) idle() {
	for _, c := range inv.controllers {
		labels := inv.namespaces[c.Namespace]
		injected := labels["istio-injection"] == "enabled" || labels["istio-injection"] == "" && labels["istio.io/rev"] != ""
		if c.inject == "true" && labels["istio-injection"] != "disabled" || injected && c.inject != "false" {
			inv.addIdle(c.Workload, c.labels)
		}
	}
	inv.controllers = nil
}

// generatedName matches the names of a Deployment's pods.
var generatedName = regexp.MustCompile(`^(.+)-[bcdf0-9-hj-np-tv-xz2-9]{6,10}-[a-z0-9]{5}$`)

// numberedName matches those of a StatefulSet or DaemonSet.
var numberedName = regexp.MustCompile(`^(.+)-(?:[0-9]+|[a-z0-9]{5})$`)

// WorkloadOf returns the workload of a pod; for one that is gone, by its name.
func (inv *Inventory) WorkloadOf(namespace, pod string) Workload {
	if w, known := inv.pods[Workload{namespace, pod}]; known {
		return w
	}
	if m := generatedName.FindStringSubmatch(pod); m != nil {
		return Workload{namespace, m[1]}
	}
	if m := numberedName.FindStringSubmatch(pod); m != nil {
		if w := (Workload{namespace, m[1]}); inv.workloads[w] != nil {
			return w
		}
	}
	return Workload{namespace, pod}
}

// addService adds a Service, or a host of a ServiceEntry.
func (inv *Inventory) addService(s Service) {
	if inv.services[s.Host] == nil {
		name := strings.ToLower(s.Name)
		inv.byName[name] = append(inv.byName[name], s.Host)
	}
	inv.services[s.Host] = &s
}

// resolve returns what a host may mean for a caller: one host, or the ServiceEntries of several
// namespaces. An unknown host is returned by name.
func (inv *Inventory) resolve(host, namespace, caller string) []Host {
	for _, name := range inv.spellings(strings.ToLower(host), caller) {
		var found []Host
		for _, candidate := range wildcards(name) {
			for _, h := range inv.byName[candidate] {
				if (namespace == "" || h.Namespace == namespace) && inv.visible(h, caller) {
					found = append(found, h)
				}
			}
			if len(found) > 0 {
				sortHosts(found)
				return found
			}
		}
	}
	// A Service that is not there (any more) says itself where it was.
	if parts := strings.SplitN(host, ".", 4); len(parts) == 4 && parts[2] == "svc" {
		return []Host{{parts[1], host}}
	}
	return []Host{{cmp.Or(namespace, "*"), host}}
}

// visible reports whether exportTo lets a namespace see a host.
func (inv *Inventory) visible(h Host, namespace string) bool {
	to := inv.services[h].ExportTo
	if len(to) == 0 {
		to = inv.exports
	}
	return visibleTo(to, h.Namespace, namespace)
}

// Knows reports whether the mesh has a host that a namespace calls.
func (inv *Inventory) Knows(host, caller string) bool {
	return inv.known(inv.resolve(host, "", caller)[0])
}

func (inv *Inventory) known(h Host) bool { return inv.services[h] != nil }

// spellings returns the full names that a host may abbreviate.
func (inv *Inventory) spellings(host, caller string) []string {
	names := []string{host}
	switch parts := strings.Split(host, "."); {
	case len(parts) == 1 && caller != "":
		names = append(names, serviceHost(host, caller, inv.Domain))
	case len(parts) == 2:
		names = append(names, serviceHost(parts[0], parts[1], inv.Domain))
	case len(parts) == 3 && parts[2] == "svc":
		names = append(names, host+"."+inv.Domain)
	}
	return names
}

// wildcards returns a host and the wildcards that include it, the longest first.
func wildcards(host string) []string {
	out := []string{host}
	for rest := strings.TrimPrefix(host, "*."); ; {
		_, after, found := strings.Cut(rest, ".")
		if !found {
			return append(out, "*")
		}
		rest = after
		out = append(out, "*."+rest)
	}
}

// hosts returns all known hosts, sorted.
func (inv *Inventory) hosts() []Host { return hostsOf(inv.services) }

// callers returns the workloads that have sidecars, sorted.
func (inv *Inventory) callers() []Workload {
	var out []Workload
	for w, p := range inv.workloads {
		if (p.Proxied > 0 || p.idle) && !p.Gateway {
			out = append(out, w)
		}
	}
	sortWorkloads(out)
	return out
}

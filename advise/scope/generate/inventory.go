package generate

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// Host is what a Sidecar admits: the full name of a Service or a host of a ServiceEntry, with its
// namespace; * if that is unknown.
type Host struct {
	Namespace string `json:"namespace"`
	Name      string `json:"host"`
}

// String returns NAMESPACE/HOST, as in an egress listener.
func (h Host) String() string { return h.Namespace + "/" + h.Name }

func compareHosts(a, b Host) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// set is a set of hosts.
type set map[Host]struct{}

func (s set) add(hosts ...Host) {
	for _, h := range hosts {
		s[h] = struct{}{}
	}
}

func (s set) sorted() []Host { return slices.SortedFunc(maps.Keys(s), compareHosts) }

// service is a Service or one host of a ServiceEntry.
type service struct {
	Host
	object   scope.Owner
	ports    int
	tcp      []int // ports whose requests the mesh cannot tell apart
	requests []int // ports of its pods that take requests
	headless bool
	// direct says that its endpoints are wherever callers connect to (ORIGINAL_DST) or what DNS returns:
	// proxies drop the counters of those that are gone.
	direct   bool
	selector map[string]string // of the pods that are its endpoints
	external bool              // of type ExternalName
	alias    string            // the host that it stands for
	exportTo []string
}

// pods summarizes the pods of a workload.
type pods struct {
	number  int
	proxied int                // with a sidecar
	gateway bool               // its proxies are gateways or waypoints
	labels  map[string]string  // common to all pods
	since   time.Time          // start of the oldest existing pod, if known
	any     map[[2]string]bool // labels of any pod
	idle    bool               // no pod exists now
}

// endpoint is a pod as an endpoint of Services.
type endpoint struct {
	labels map[string]string
	since  time.Time // when it became one; zero if unknown
}

// controller is a Deployment, StatefulSet, DaemonSet or CronJob.
type controller struct {
	Workload
	labels map[string]string
	inject string // sidecar.istio.io/inject of its template
}

// need is a host named in the mesh's own configuration.
type need struct {
	namespace string // of the proxies that need it; "" for all
	host      string // namespace/host, or a host
	ifKnown   bool   // ignored if the mesh does not know it
}

// Inventory is the content of the mesh.
type Inventory struct {
	Domain string // of the cluster
	Root   string // namespace of the mesh's configuration

	outbound    string                       // the mesh's outbound policy
	namespaces  map[string]map[string]string // their labels
	services    map[Host]*service
	byName      map[string][]Host
	workloads   map[Workload]*pods
	within      map[string][]Workload // by namespace
	pods        map[Workload]Workload // by namespace and the pod's name
	endpoints   map[string][]endpoint // by namespace
	virtual     []virtualService
	rules       map[scope.Owner]string // hosts of DestinationRules
	existing    []Sidecar
	filters     []Filter                 // that another mesh could run
	policies    []policy                 // that decide by what is in requests
	balanced    map[string][]scope.Owner // DestinationRules that balance requests, by host
	needs       []need
	machines    map[string]int         // WorkloadEntries by namespace that may have no proxy
	born        map[Workload]time.Time // when what makes their pods was made
	configured  bool                   // the mesh's configuration was read
	read        map[string]bool
	objects     map[string]map[string]bool // names of what was read, by kind
	controllers []controller

	exports, routeExports []string // by default, of Services and of VirtualServices
}

// NewInventory returns an empty mesh.
func NewInventory() *Inventory {
	return &Inventory{Domain: "cluster.local", Root: "istio-system", outbound: "ALLOW_ANY",
		namespaces: map[string]map[string]string{}, services: map[Host]*service{}, byName: map[string][]Host{},
		workloads: map[Workload]*pods{}, within: map[string][]Workload{}, pods: map[Workload]Workload{},
		endpoints: map[string][]endpoint{}, objects: map[string]map[string]bool{}, rules: map[scope.Owner]string{}, read: map[string]bool{},
		machines: map[string]int{}, born: map[Workload]time.Time{}, balanced: map[string][]scope.Owner{}}
}

// Has reports whether objects of a kind were read; for ConfigMap, whether the mesh's was.
func (inv *Inventory) Has(kind string) bool {
	if kind == "ConfigMap" {
		return inv.configured
	}
	return inv.read[kind]
}

// Objects are how many objects of each kind were read.
func (inv *Inventory) Objects() map[string]int {
	out := map[string]int{}
	for kind := range inv.read {
		out[kind] = len(inv.objects[kind])
	}
	return out
}

// Calls says of a host, as a proxy's cluster names it, whether connections to its port are all that
// proxies count, and whether something decides by what is in its requests ([Inventory.L7]).
func (inv *Inventory) Calls(host string, port int) (connections, routed bool) {
	for _, h := range inv.byName[strings.ToLower(host)] {
		connections = connections || slices.Contains(inv.services[h].tcp, port)
	}
	return connections, len(inv.L7(host)) > 0
}

// AddProxy adds a proxy's workload and the hosts in its configuration, unless lists of pods and services
// were read.
func (inv *Inventory) AddProxy(p scope.Proxy) {
	if n := p.Node; n != nil && !inv.Has("Pod") {
		inv.addPod(Workload{n.Namespace, n.Workload}, cmp.Or(n.Pod, p.Name), n.Labels, true, n.Type != "sidecar")
	}
	for _, c := range p.Clusters {
		_, _, _, host, ok := scope.SplitCluster(c.Name)
		switch kind := c.Owner.Kind; {
		case !ok:
		case kind == "DestinationRule": // of a subset: its host is another's
			inv.rules[c.Owner] = host
		case (kind == "Service" || kind == "ServiceEntry") && !inv.Has(kind) && !inv.known(Host{c.Owner.Namespace, host}):
			inv.addService(service{Host: Host{c.Owner.Namespace, host}, object: c.Owner, ports: 1})
		}
	}
}

// workload returns the record of a workload's pods; a new one gets the given labels.
func (inv *Inventory) workload(w Workload, labels map[string]string) *pods {
	p := inv.workloads[w]
	if p == nil {
		p = &pods{labels: maps.Clone(labels), any: map[[2]string]bool{}, idle: true}
		inv.workloads[w] = p
		inv.within[w.Namespace] = append(inv.within[w.Namespace], w)
	}
	for key, value := range labels {
		p.any[[2]string{key, value}] = true
	}
	return p
}

// addPod counts a pod once, however often it is listed.
func (inv *Inventory) addPod(w Workload, name string, labels map[string]string, proxied, gateway bool) {
	pod := Workload{w.Namespace, name}
	if _, known := inv.pods[pod]; known {
		return
	}
	inv.pods[pod] = w
	p := inv.workload(w, labels)
	p.idle, p.gateway = false, p.gateway || gateway
	p.number++
	p.proxied += b2i(proxied)
	maps.DeleteFunc(p.labels, func(key, value string) bool { return labels[key] != value })
}

// addIdle adds workloads without pods that will have sidecars, by the rules of istiod's webhook:
// the template's label, or the namespace's.
func (inv *Inventory) addIdle() {
	for _, c := range inv.controllers {
		labels := inv.namespaces[c.Namespace]
		injected := labels["istio-injection"] == "enabled" || labels["istio-injection"] == "" && labels["istio.io/rev"] != ""
		here := inv.workloads[c.Workload] != nil
		if !here && (c.inject == "true" && labels["istio-injection"] != "disabled" || injected && c.inject != "false") {
			inv.workload(c.Workload, c.labels)
		}
	}
	inv.controllers = nil
}

// generatedName matches the names of a Deployment's pods, numberedName those of a StatefulSet or
// DaemonSet.
var (
	generatedName = regexp.MustCompile(`^(.+)-[bcdf0-9-hj-np-tv-xz2-9]{6,10}-[a-z0-9]{5}$`)
	numberedName  = regexp.MustCompile(`^(.+)-(?:[0-9]+|[a-z0-9]{5})$`)
)

// WorkloadOf returns the workload of a pod; for a pod that is gone, derived from its name.
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

// serviceHost returns the name by which the mesh knows a Service.
func serviceHost(name, namespace, domain string) string {
	return name + "." + namespace + ".svc." + domain
}

// addService adds a Service, or a host of a ServiceEntry.
func (inv *Inventory) addService(s service) {
	if inv.services[s.Host] == nil {
		name := strings.ToLower(s.Name)
		inv.byName[name] = append(inv.byName[name], s.Host)
	}
	inv.services[s.Host] = &s
}

// resolve returns what a host may mean for a caller: one host, or the ServiceEntries of several
// namespaces. It returns an unknown host by name.
func (inv *Inventory) resolve(host, namespace, caller string) []Host {
	for _, name := range inv.spellings(strings.ToLower(host), caller) {
		for _, candidate := range wildcards(name) {
			found := set{}
			for _, h := range inv.byName[candidate] {
				if (namespace == "" || h.Namespace == namespace) && inv.visible(h, caller) {
					found.add(h)
				}
			}
			if len(found) > 0 {
				return found.sorted()
			}
		}
	}
	// The name of a Service that no longer exists still says where it was.
	if parts := strings.SplitN(host, ".", 4); len(parts) == 4 && parts[2] == "svc" {
		return []Host{{parts[1], host}}
	}
	return []Host{{cmp.Or(namespace, "*"), host}}
}

// visible reports whether exportTo lets a namespace see a host.
func (inv *Inventory) visible(h Host, namespace string) bool {
	return visibleTo(inv.services[h].exportTo, inv.exports, h.Namespace, namespace)
}

// visibleTo reports whether an object's exportTo (or the default), in the namespace own, includes
// another namespace.
func visibleTo(exportTo, byDefault []string, own, namespace string) bool {
	if len(exportTo) == 0 {
		exportTo = byDefault
	}
	return len(exportTo) == 0 || slices.ContainsFunc(exportTo, func(to string) bool {
		return to == "*" || to == namespace || to == "." && own == namespace
	})
}

// Knows reports whether the mesh has a host that a namespace calls.
func (inv *Inventory) Knows(host, caller string) bool {
	return inv.known(inv.resolve(host, "", caller)[0])
}

func (inv *Inventory) known(h Host) bool { return inv.services[h] != nil }

// spellings returns the full names that a host may abbreviate.
func (inv *Inventory) spellings(host, caller string) []string {
	switch parts := strings.Split(host, "."); {
	case len(parts) == 1 && caller != "":
		return []string{host, serviceHost(host, caller, inv.Domain)}
	case len(parts) == 2:
		return []string{host, serviceHost(parts[0], parts[1], inv.Domain)}
	case len(parts) == 3 && parts[2] == "svc":
		return []string{host, host + "." + inv.Domain}
	}
	return []string{host}
}

// full expands a short name as istiod does, in the namespace of the object that contains it.
func (inv *Inventory) full(host, namespace string) string {
	if !strings.ContainsAny(host, ".*") {
		return serviceHost(strings.ToLower(host), namespace, inv.Domain)
	}
	return host
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
func (inv *Inventory) hosts() []Host { return slices.SortedFunc(maps.Keys(inv.services), compareHosts) }

// callers returns the workloads with sidecars, sorted.
func (inv *Inventory) callers() []Workload {
	var out []Workload
	for w, p := range inv.workloads {
		if (p.proxied > 0 || p.idle) && !p.gateway {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, compareWorkloads)
	return out
}

// contains reports whether labels include all of some.
func contains(labels, some map[string]string) bool {
	for key, value := range some {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

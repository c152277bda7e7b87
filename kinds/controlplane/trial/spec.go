package trial

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// namespaceName maps a study's name to the population's namespace: STEM-1 is the first. It returns
// other names unchanged.
func namespaceName(c *controlplane.Control, name string) string {
	if n := c.NamespaceNumber(name); n > 0 {
		return population.Namespace(n - 1)
	}
	return name
}

// sizesOf returns the population that a cell requires.
func sizesOf(c *controlplane.Control, l controlplane.Levels) population.Sizes {
	return population.Sizes{
		Namespaces: l.Namespaces, Services: l.Services, EndpointsPerService: l.Endpoints, Proxies: l.Proxies, Gateways: l.Gateways, Ztunnels: l.Ztunnels,
		ServiceEntries: l.ServiceEntries, VirtualServices: l.VirtualServices, DestinationRules: l.DestinationRules,
		GatewayResources: l.GatewayResources, AuthorizationPolicies: l.AuthorizationPolicies, EndpointSlices: l.EndpointSlices, SliceNamespaces: l.SliceNamespaces,
		DummyNamespace: namespaceName(c, c.DummiesNamespace),
		ServiceEntry: population.ServiceEntryOptions{
			Host: c.ServiceEntry.Host, Port: c.ServiceEntry.Port, Resolution: c.ServiceEntry.Resolution,
		},
	}
}

// leversOf returns the levers that a cell requires.
func leversOf(c *controlplane.Control, cell record.Cell, sizes population.Sizes) mesh.Levers {
	l := mesh.LeversOf(cell)
	l.Namespaces = []string{namespaceName(c, c.ScopeNamespace)}
	if l.Named(controlplane.FactorSidecarHosts) {
		hosts := l.Hosts()
		for i, host := range hosts {
			namespace, name, _ := strings.Cut(host, "/")
			hosts[i] = namespaceName(c, namespace) + "/" + name
		}
		l = l.With(controlplane.FactorSidecarHosts, strings.Join(hosts, ","))
	}
	l.Workload = map[string]string{population.AppLabel: firstWorkload(l.Namespaces[0], sizes)}
	l.Wait = startTime + time.Duration(sizes.EndpointSlices)*startSlice
	return l
}

// Limits of istiod's startup time: 26 minutes have been reported with 30,000 EndpointSlices
// (istio/istio#55201).
const (
	startTime  = 3 * time.Minute
	startSlice = 60 * time.Millisecond
)

// firstWorkload returns the workload in a namespace of the population that a Sidecar of scope
// workload selects.
func firstWorkload(namespace string, sizes population.Sizes) string {
	for i := range min(sizes.Services, sizes.Namespaces) {
		if s := sizes.Service(i); s.Namespace == namespace && s.Endpoints > 0 {
			return s.Name
		}
	}
	return population.ClientsDeployment
}

// churnSpec describes the changes in a trial of a cell.
func churnSpec(s *study.Study, cell record.Cell, l controlplane.Levels, trial string, seed uint64) churn.Spec {
	kind, burst := l.Arrival()
	spec := churn.Spec{
		Trial: trial, Kind: l.Change, Arrival: kind, BurstSize: burst,
		Shape: l.ChangeRate, Objects: controlplane.Of(s).Objects, Endpoints: controlplane.Of(s).EndpointsBy,
		Count: controlplane.ChangesIn(s, cell), Seed: seed,
		Population: sizesOf(controlplane.Of(s), l),
		Gateway:    gatewayOf(controlplane.Of(s)), DiscoverySelector: l.DiscoverySelectors,
	}
	if controlplane.Of(s).ChurnsTraffic(l.Change) {
		on := trafficService(controlplane.Of(s), namespaceName(controlplane.Of(s), controlplane.Of(s).ScopeNamespace))
		spec.On = &on
	}
	if kind == study.ArrivalBurst && burst == 0 {
		spec.BurstSize = spec.Count
	}
	if l.Change == controlplane.ChangeTrace {
		for _, c := range controlplane.Of(s).Trace {
			spec.Trace = append(spec.Trace, churn.TraceChange{OffsetNS: int64(c.At), Kind: c.Change})
		}
	}
	return spec
}

// fleetSpec returns the fleet of a cell: which proxies connect to istiod, and how they behave.
func fleetSpec(c *controlplane.Control, l controlplane.Levels, ids []population.Identity, d mesh.Discovery, seed uint64) (xds.Spec, error) {
	spec := xds.DefaultSpec(d.Plaintext)
	if l.Ztunnels > 0 && !d.Ambient {
		return spec, errs.WithHint(errs.Usage("%d ztunnels: istiod is not in ambient mode, and rejects ztunnels", l.Ztunnels),
			"set settings: {%s: %s=true}, or install Istio that way", controlplane.FactorIstiodEnv, ambientVariable)
	}
	spec.Mode = l.XDS
	spec.StreamsPerConnection = shared(c.StreamsPerConnection, len(ids), l.IstiodReplicas)
	spec.DNSCapture, spec.HBONE = l.DNSCapture, l.HBONE
	spec.AnswerAfterUS = int(c.AnswerAfter / time.Microsecond)
	spec.Seed = seed
	spec.Mesh = xds.Mesh{ClusterID: d.ClusterID, IstioVersion: d.Version}
	if mode := securityModes[c.Security]; mode != xds.SecurityPlaintext {
		spec.Addresses = []string{d.TLS}
		spec.Security = xds.Security{Mode: mode, RootCA: string(d.RootCA), ServerName: d.ServerName}
	}
	for _, id := range ids {
		p := xds.Proxy{Type: id.Type, Name: id.Name, Namespace: id.Namespace, IP: id.IP,
			ServiceAccount: id.ServiceAccount, Node: id.Node, Labels: id.Labels}
		for _, port := range id.Ports {
			p.Ports = append(p.Ports, xds.Port{Name: port.Name, ContainerPort: port.ContainerPort, Protocol: port.Protocol})
		}
		spec.Proxies = append(spec.Proxies, p)
	}
	for _, i := range badProxies(c, l, ids) {
		spec.Proxies[i].Behaviour = l.Clients
	}
	return spec, nil
}

// ambientVariable puts istiod into ambient mode.
const ambientVariable = "PILOT_ENABLE_AMBIENT"

// securityModes maps the ways in which proxies reach istiod to the fleet's names.
var securityModes = map[string]string{
	controlplane.SecurityMTLS:      xds.SecurityMTLS,
	controlplane.SecurityTLS:       xds.SecurityToken,
	controlplane.SecurityPlaintext: xds.SecurityPlaintext,
}

// connectionsEach is the minimum mean number of connections to each of several istiods, if there
// are enough proxies.
const connectionsEach = 16

// shared returns the number of proxies that share a connection. The cluster assigns each connection
// to a random replica of istiod. With few connections one replica could get all of them, so with
// several replicas fewer proxies share one, which gives each replica a fair part.
func shared(want, proxies, replicas int) int {
	if replicas < 2 {
		return want
	}
	return max(1, min(want, proxies/(connectionsEach*replicas)))
}

// badProxies picks the simulated proxies that misbehave on purpose, by index: a share of all, at
// least one. Each type has its share of them, rounded to whole proxies and spread evenly over the
// type, since only misbehaving ztunnels, or none, would make it a different study.
func badProxies(c *controlplane.Control, l controlplane.Levels, ids []population.Identity) []int32 {
	if len(ids) == 0 || l.Clients == controlplane.ClientsGood || l.Clients == study.NotApplicable {
		return nil
	}
	of := map[string][]int32{} // by type
	for i, id := range ids {
		of[id.Type] = append(of[id.Type], int32(i))
	}
	all := len(ids)
	bad := min(all, max(1, int(float64(c.BadShare)*float64(all)+0.5)))
	whole := func(kind string) int { return bad * len(of[kind]) / all }
	rest := func(kind string) int { return bad * len(of[kind]) % all }
	left := bad
	for kind := range of {
		left -= whole(kind)
	}
	// The remainder goes to the types with the largest deficit.
	kinds := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(rest(b)-rest(a), int(of[a][0]-of[b][0]))
	})
	var out []int32
	for i, kind := range kinds {
		n := whole(kind)
		if i < left {
			n++
		}
		for j := range n {
			out = append(out, of[kind][j*len(of[kind])/n])
		}
	}
	slices.Sort(out)
	return out
}

// label returns the trial's name within the names of its changes' objects. A repeated trial gets
// another one.
func (t *controlTrial) label() string {
	label := trialLabel(t.c.Run, t.job.ID)
	if len(t.seen.Repeated) > 0 {
		label += "r"
	}
	return label
}

// trialLabel returns a trial's name within the names of its changes' objects: at most 20 letters,
// different in every attempt at a run.
func trialLabel(run, id string) string {
	suffix := run
	if len(suffix) > 4 {
		suffix = suffix[len(suffix)-4:]
	}
	return fmt.Sprintf("%s-%s", id, suffix)
}

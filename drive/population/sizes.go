package population

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Sizes says how large the simulated world is. The zero value is an empty
// world.
type Sizes struct {
	Namespaces          int // of workloads, at least 1 where there are any
	Services            int // spread over the namespaces
	EndpointsPerService int // pods behind each Service; 0: Services that select nothing
	Proxies             int // simulated sidecars
	Gateways            int // simulated gateways
	Ztunnels            int // simulated ztunnels

	// Configuration that is only there to be many.
	ServiceEntries        int
	VirtualServices       int // the first GatewayResources are bound to gateways, the rest to the mesh
	DestinationRules      int // the first Services are about Services, the rest about hosts nobody has
	GatewayResources      int
	AuthorizationPolicies int // spread over the namespaces; none refuses anybody
	// EndpointSlices have an address each and a headless Service of their own, spread
	// over SliceNamespaces (0: 1). No pods are behind them.
	EndpointSlices  int
	SliceNamespaces int

	// DummyNamespace holds ServiceEntries, VirtualServices and
	// GatewayResources; "" for the first namespace. One that is not of the
	// population must be there already.
	DummyNamespace string
	ServiceEntry   ServiceEntryOptions
}

// ServiceEntryOptions say what the ServiceEntries are like.
type ServiceEntryOptions struct {
	// Host is the one host of all of them; "" gives each a host of its own.
	Host       string
	Port       int    // 0: 80
	Resolution string // DNS (the default), STATIC, NONE
}

// Limits of a population. A node's address range lasts for 65,536 pods.
const (
	maxObjects  = 1_000_000
	podsPerNode = 1000
	maxPods     = 250_000
)

// Names and labels of what a population is made of.
const (
	// Label stands on everything of a population, with the value LabelValue.
	Label      = "meshtrial.dev/population"
	LabelValue = "simulated"
	// PartOf marks everything that meshtrial makes.
	PartOf = "app.kubernetes.io/part-of"
	// AppLabel selects the pods of a Deployment.
	AppLabel = "app"
	// NodeLabel marks the nodes that kwok plays; they bear a taint of the
	// same name, so that nothing else is scheduled there but pods of DaemonSets that
	// tolerate every taint.
	NodeLabel = "meshtrial.dev/simulated-node"
	// ServiceAccount of all simulated pods.
	ServiceAccount = "simulated"
	// GatewayNamespace is where the simulated gateways are.
	GatewayNamespace = "mm-gateways"
	// ZtunnelNamespace is where the simulated ztunnels are, and ZtunnelDeployment what
	// makes their pods: as many as a study asks for, however many nodes kwok plays.
	ZtunnelNamespace  = "mm-ztunnels"
	ZtunnelDeployment = "ztunnel"
	// SlicesNamespace is where EndpointSlices are that no controller made; where they are
	// in several namespaces, it is the first, and the others' names begin with it.
	SlicesNamespace = "mm-slices"
	// sliceManager marks those, which bear the population's label as their Services' do.
	sliceManager = "meshtrial-population"
	// GatewayLabel is on the pods of gateways, with the value "true": by it Gateway
	// resources select them, and nobody else's ingress gateways.
	GatewayLabel = "meshtrial.dev/gateway"
	// ServicePort and TargetPort of each Service; the port's name is http.
	ServicePort = 80
	TargetPort  = 8080
	// Domain of hosts outside the cluster that nobody has.
	Domain = "meshtrial.test"
)

// Validate says what is wrong with the sizes.
func (s Sizes) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"namespaces", s.Namespaces}, {"services", s.Services}, {"endpoints", s.EndpointsPerService}, {"proxies", s.Proxies},
		{"gateways", s.Gateways}, {"ztunnels", s.Ztunnels}, {"service_entries", s.ServiceEntries}, {"virtual_services", s.VirtualServices},
		{"destination_rules", s.DestinationRules}, {"gateway_resources", s.GatewayResources}, {"authorization_policies", s.AuthorizationPolicies},
		{"endpoint_slices", s.EndpointSlices}, {"slice_namespaces", s.SliceNamespaces},
	} {
		if f.value < 0 || f.value > maxObjects {
			return errs.Usage("population: %s %d: want a number from 0 to %d", f.name, f.value, maxObjects)
		}
	}
	if s.Namespaces == 0 && s.Services+s.Proxies+s.AuthorizationPolicies+s.DestinationRules > 0 {
		return errs.Usage("population: workloads and policies need at least one namespace")
	}
	if s.Namespaces == 0 && s.DummyNamespace == "" && s.ServiceEntries+s.VirtualServices+s.GatewayResources > 0 {
		return errs.Usage("population: ServiceEntries, VirtualServices and Gateways need a namespace")
	}
	if pods := s.pods(); pods > maxPods {
		return errs.Usage("population: %d pods are more than %d", pods, maxPods)
	}
	if r := s.ServiceEntry.Resolution; r != "" && !slices.Contains([]string{"DNS", "STATIC", "NONE"}, r) {
		return errs.Usage("population: resolution %q of ServiceEntries: want DNS, STATIC or NONE", r)
	}
	if p := s.ServiceEntry.Port; p < 0 || p > 65535 {
		return errs.Usage("population: port %d of ServiceEntries: want one from 1 to 65535", p)
	}
	return nil
}

// pods is how many pods there are.
func (s Sizes) pods() int {
	return s.Services*s.EndpointsPerService + s.clients() + s.Gateways + s.Ztunnels
}

// clients is how many sidecars find no pod of a Service and have pods of
// their own: those of the Deployment "clients" of each namespace.
func (s Sizes) clients() int { return max(0, s.Proxies-s.Services*s.EndpointsPerService) }

// nodes is how many simulated nodes hold the pods, with room for pods that
// come while others go.
func (s Sizes) nodes() int {
	pods := s.pods()
	if pods == 0 {
		return 0
	}
	return (pods+pods/4+50)/podsPerNode + 1
}

// Namespace is the name of namespace i.
func Namespace(i int) string { return fmt.Sprintf("mm-%d", i) }

// sliceNamespace is where EndpointSlice i is.
func (s Sizes) sliceNamespace(i int) string {
	if n := i % max(1, s.SliceNamespaces); n > 0 {
		return fmt.Sprintf("%s-%d", SlicesNamespace, n)
	}
	return SlicesNamespace
}

// NamespaceNames are the namespaces of workloads, in order.
func (s Sizes) NamespaceNames() []string {
	out := make([]string, s.Namespaces)
	for i := range out {
		out[i] = Namespace(i)
	}
	return out
}

// Service names a Service of the population.
type Service struct {
	Namespace string
	Name      string // of its Deployment too
	Endpoints int
}

// Host is the name by which the mesh knows the Service.
func (s Service) Host() string { return s.Name + "." + s.Namespace + ".svc.cluster.local" }

// Cluster is the name of the Service's cluster in a proxy (CDS and EDS), with
// a subset or without.
// See istio.io/istio/pilot/pkg/model.BuildSubsetKey.
func (s Service) Cluster(subset string) string {
	return fmt.Sprintf("outbound|%d|%s|%s", ServicePort, subset, s.Host())
}

// Service returns Service i, from 0.
func (s Sizes) Service(i int) Service {
	return Service{Namespace: Namespace(i % s.Namespaces), Name: fmt.Sprintf("svc-%d", i), Endpoints: s.EndpointsPerService}
}

// ClientsDeployment is the name of the Deployment, one in each namespace, of
// pods that belong to no Service.
const ClientsDeployment = "clients"

// GatewayDeployment is the name of the simulated gateways' Deployment and
// Service.
const GatewayDeployment = "gateway"

// dummyNamespace is where configuration goes that is not about workloads.
func (s Sizes) dummyNamespace() string {
	if s.DummyNamespace != "" {
		return s.DummyNamespace
	}
	return Namespace(0)
}

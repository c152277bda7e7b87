package components

import "time"

// References of the images [Builder.Images] assembles. They are always
// present in the local lab, so pods use them with pull policy IfNotPresent.
const (
	PauseRef   = "docker.io/meshtrial/pause:1"
	CoreDNSRef = "docker.io/meshtrial/coredns:" + coreDNSVersion
	RolesRef   = "docker.io/meshtrial/meshtrial:lab" // worker, load, observe, xds

	// IstioHub and IstioTag name istio/pilot and istio/proxyv2. The tag
	// alone is the default Envoy; see [ProxyTag] for the others.
	IstioHub = "docker.io/istio"
	IstioTag = istioVersion
)

// ProxyRef is the proxy image that carries the given version of Envoy.
func ProxyRef(envoy string) string { return IstioHub + "/proxyv2:" + ProxyTag(envoy) }

// ProxyTag is the tag of the proxy image that carries the given version of
// Envoy: IstioTag for the default one and for "".
func ProxyTag(envoy string) string {
	if envoy == "" || envoy == DefaultEnvoy {
		return IstioTag
	}
	return IstioTag + "-envoy" + envoy
}

// Options of a [Builder]. Users get the zero value.
type Options struct {
	// CacheDir holds everything made. Default: $MESHTRIAL_CACHE, otherwise
	// meshtrial in the user's cache folder.
	CacheDir string
	// SourceDir is lab/components/src of this repository. Default:
	// $MESHTRIAL_SOURCE, otherwise beside the program, otherwise in the
	// working directory or above it.
	SourceDir string
	// Recorded trusts the cache's own records instead of reading its files, for
	// callers that run none of them.
	Recorded bool
	// Progress receives events, from one goroutine at a time. May be nil.
	Progress func(Event)
}

// Event is a step of progress.
type Event struct {
	Component string        // what is worked on, for people: components, or an image
	Phase     Phase         // what happens to it
	Detail    string        // for people: a package being compiled, a size, a note
	Elapsed   time.Duration // since Ensure, Images or Manifests began
	Left      time.Duration // estimate for the whole call; 0 if unknown or done
}

// Phase of an [Event].
type Phase string

// Phases, in the order a component passes through them.
const (
	PhaseWait     Phase = "wait" // another process is making it
	PhaseDownload Phase = "download"
	PhaseBuild    Phase = "build"
	PhaseAssemble Phase = "assemble"
	PhaseReady    Phase = "ready" // made just now; cached components give no event
	PhaseNote     Phase = "note"  // for the user
)

// Program is a file to execute.
type Program struct {
	Path string
	// Env is what the program needs in its environment beside what its
	// caller sets, as KEY=VALUE; often empty.
	Env []string
}

// Set locates components. It is read-only.
type Set struct {
	programs map[string]Program
	dirs     map[string]string
	versions []Version
}

// Program finds a program of the set by its name: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl,
// pilot-discovery, pilot-agent, istioctl, install-cni, istio-cni, kwok, coredns, metrics-server, envoy
// (or envoy@VERSION), containerd, containerd-shim-runc-v2, ctr, runc, nft.
func (s *Set) Program(name string) (Program, bool) {
	p, ok := s.programs[name]
	return p, ok
}

// Dir finds a folder of the set: "cni" holds the CNI plugins. It is "" if
// the set has none of that name.
func (s *Set) Dir(name string) string { return s.dirs[name] }

// Versions lists what the set was made from, for machine.json: one line a
// component, and one for each Debian package.
func (s *Set) Versions() []Version { return s.versions }

// Version says what exactly a component is.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Source  string `json:"source"`           // module, wheel or package it comes from
	Digest  string `json:"digest"`           // h1:... for modules, sha256:... otherwise
	Binary  string `json:"binary,omitempty"` // sha256:... of the program, if it is one
	Lacks   string `json:"lacks,omitempty"`  // what the official one has beyond it
}

// ImageOptions say which images to make.
type ImageOptions struct {
	// MeshtrialBinary is the static program for the roles' image; "" leaves
	// that image out.
	MeshtrialBinary string
	// RolesOnly makes the roles' image alone, which needs neither sources nor
	// Debian packages. What follows is ignored then.
	RolesOnly bool
	// EnvoyVersions are the proxy images to make; empty means the default one.
	EnvoyVersions []string
	// Official takes istio/pilot and istio/proxyv2 from a registry instead
	// of assembling them. EnvoyVersions is ignored then.
	Official bool
	// Hub and Tag say which official images: default docker.io/istio and the
	// release nearest to the pinned module. A tag may pin the images, as
	// TAG@sha256:PILOT,sha256:PROXYV2.
	Hub, Tag string
	// ByReference leaves the pulling of official images to the cluster: the
	// images returned have no Path.
	ByReference bool
	// Ambient also makes, or pulls, the images of Istio's node agent and of
	// ztunnel. Ztunnel is the folder with the program that the latter is assembled
	// of; without use for official ones.
	Ambient bool
	Ztunnel string
}

// Image is an image in the cache.
type Image struct {
	Ref    string `json:"ref"`            // docker.io/...
	Path   string `json:"path,omitempty"` // archive for `ctr images import`; "" if the cluster is to pull it
	Digest string `json:"digest"`         // sha256:... of the manifest
	Size   int64  `json:"size_bytes"`     // of the archive
}

// ManifestOptions say how Istio is installed.
type ManifestOptions struct {
	// Set are settings as of `istioctl install --set`, applied over ours.
	Set []string
	// Official leaves out what only an upstream Envoy needs, and names the
	// official images. Hub and Tag are as in [ImageOptions].
	Official bool
	Hub, Tag string
	// ByReference names official images by their digests, if the tag has them,
	// for a cluster that pulls them.
	ByReference bool
	// Ambient, if set, is how an ambient mesh is installed beside: its istiod has
	// that mode on, and [Manifests.Ambient] is made.
	Ambient *AmbientManifests
	// GatewayAPI has the Gateway API's definitions among the CRDs, as an ambient mesh has
	// in any case.
	GatewayAPI bool
}

// Manifests are YAML documents to apply: CRDs first, Istio when those are
// established.
type Manifests struct {
	CRDs  []byte
	Istio []byte
	// Ambient are Istio's node agent and ztunnel, if they were asked for.
	Ambient []byte
}

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
)

// Folders inside the lab's mount namespace. Each is a mount of the lab, so the host's
// folders are not affected. Paths of sockets must be short.
const (
	runDir       = "/run/meshtrial"
	imageDir     = runDir + "/images" // the root that containerd keeps
	kubeletDir   = "/var/lib/kubelet"
	etcdSocket   = runDir + "/etcd.sock"
	etcdPeer     = runDir + "/etcd-peer.sock"
	criSocket    = runDir + "/containerd.sock"
	statusSocket = runDir + "/status.sock"
	ordersSocket = runDir + "/orders.sock"
)

// spec holds everything that init needs to know. It is stored as spec.json.
type spec struct {
	ID         string                        `json:"id"`
	Dir        labDir                        `json:"dir"`
	ImageStore string                        `json:"image_store"`
	Network    network                       `json:"network"`
	Cgroup     string                        `json:"cgroup"`
	Programs   map[string]components.Program `json:"programs"`
	CNI        string                        `json:"cni"` // folder of plugins
	Images     []components.Image            `json:"images"`
	Pause      string                        `json:"pause"` // reference of the sandbox image
	Keep       []string                      `json:"keep"`  // folders to keep visible inside
	Audit      bool                          `json:"audit"` // the API server writes an audit log

	NodeNetwork bool `json:"node_network"` // nodes have folders for a mesh's CNI plugin

	// Self is the node of this spec. The spec of a lab with several nodes has none: its
	// init runs the control plane, and the Nodes have their own specs.
	Self  Node   `json:"self,omitzero"`
	Nodes []Node `json:"nodes,omitempty"` // empty in the spec of one of several nodes
}

// files returns the configuration files by path below the folder: the lab's, a node's,
// or both for a lab of one node.
func (s *spec) files() (map[string][]byte, error) {
	out := map[string][]byte{}
	if len(s.Nodes) > 0 {
		out["conf/containerd-import.toml"] = []byte(s.containerdTOML(true))
		out["conf/kwok.yaml"] = []byte(kwokStages)
		out["conf/audit.yaml"] = []byte(auditPolicy)
	}
	if s.Self.Name == "" {
		return out, nil
	}
	out["conf/containerd.toml"] = []byte(s.containerdTOML(false))
	out["conf/resolv.conf"] = []byte("nameserver " + s.Network.dns().String() + "\n")
	for name, value := range map[string]any{
		"conf/kubelet.yaml":        s.kubeletConfig(),
		"conf/kube-proxy.yaml":     s.proxyConfig(),
		"conf/cni/10-lab.conflist": s.cniConfig(),
	} {
		text, err := yaml.Marshal(value)
		if strings.HasSuffix(name, ".conflist") {
			text, err = yaml.YAMLToJSON(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

// containerdTOML returns containerd's configuration, without CRI if it only imports.
func (s *spec) containerdTOML(importing bool) string {
	disabled := []string{"io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
		"io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"}
	if importing {
		disabled = append(disabled, "io.containerd.grpc.v1.cri")
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("version = 2")
	p("root = %q", imageDir+"/root")
	p("state = %q", runDir+"/containerd")
	p("oom_score = 0")
	p("disabled_plugins = [%s]", `"`+strings.Join(disabled, `", "`)+`"`)
	p("[grpc]\n  address = %q", criSocket)
	p("[debug]\n  level = \"warn\"")
	p("[plugins.\"io.containerd.internal.v1.opt\"]\n  path = %q", runDir+"/opt") // the default is a folder of the host
	if importing {
		return b.String()
	}
	p("[plugins.\"io.containerd.grpc.v1.cri\"]")
	p("  sandbox_image = %q", s.Pause)
	p("  restrict_oom_score_adj = true") // works without CAP_SYS_RESOURCE
	p("  stream_server_address = \"127.0.0.1\"")
	plugins, networks := s.CNI, s.Dir.conf("cni")
	if s.NodeNetwork {
		plugins, networks = lab.CNIBinDir, lab.CNIConfDir
	}
	p("  [plugins.\"io.containerd.grpc.v1.cri\".cni]\n    bin_dir = %q\n    conf_dir = %q", plugins, networks)
	p("  [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n    snapshotter = \"overlayfs\"\n    default_runtime_name = \"runc\"")
	p("  [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n    runtime_type = \"io.containerd.runc.v2\"")
	p("  [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n    BinaryName = %q\n    SystemdCgroup = false", s.Programs["runc"].Path)
	return b.String()
}

// MaxPods is the maximum number of pods on a node, below the size of its address range.
const MaxPods = 250

func (s *spec) kubeletConfig() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": s.Self.Address.String(), "port": 10250,
		"healthzBindAddress": "127.0.0.1", "healthzPort": 10248,
		"tlsCertFile": s.Dir.pki("kubelet-server.crt"), "tlsPrivateKeyFile": s.Dir.pki("kubelet-server.key"),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": s.Dir.pki("ca.crt")},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + criSocket,
		"failCgroupV1":             false,
		"cgroupDriver":             "cgroupfs", "cgroupRoot": s.Cgroup, "cgroupsPerQOS": true, "enforceNodeAllocatable": []string{},
		"clusterDNS": []string{s.Network.dns().String()}, "clusterDomain": "cluster.local", "resolvConf": s.Dir.conf("resolv.conf"),
		"maxPods": MaxPods, "oomScoreAdj": 0,
		"serializeImagePulls": false, "registryPullQPS": 0,
		"kubeAPIQPS": 500, "kubeAPIBurst": 1000, "eventRecordQPS": 0,
		// No eviction because of the host's disk, and no removal of images: the kept
		// image store must stay complete.
		"evictionHard": map[string]string{}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"localStorageCapacityIsolation": true,
		// With the default, 10Mi, the beginning of access logs would be lost: they are
		// read after a trial.
		"containerLogMaxSize": "100Mi",
		"volumePluginDir":     kubeletDir + "/volumeplugins",
		"failSwapOn":          false,
	}
}

func (s *spec) proxyConfig() map[string]any {
	return map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "nftables", "clientConnection": map[string]any{"kubeconfig": s.Dir.conf("kube-proxy.kubeconfig")},
		"clusterCIDR": s.Network.Pods.String(), "bindAddress": s.Self.Address.String(),
		"healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
		"oomScoreAdj": 0,
		// These sysctls cannot be written inside a namespace.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
		"nftables":  map[string]any{"minSyncPeriod": "100ms"},
	}
}

// cniConfig connects each pod to the node by its own link. The node routes between pods,
// so every packet passes the node's rules and Services work between pods of one node
// without br_netfilter.
func (s *spec) cniConfig() map[string]any {
	return map[string]any{"cniVersion": "0.4.0", "name": "lab", "plugins": []any{map[string]any{
		"type": "ptp", "ipMasq": false,
		"ipam": map[string]any{
			"type": "host-local", "dataDir": runDir + "/cni",
			"ranges": []any{[]any{map[string]any{"subnet": s.Self.Pods.String()}}},
			"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
		},
	}}}
}

// writeFiles writes the folder of a lab or a node: configuration, certificates, and
// links to tools that components find by name.
func (s *spec) writeFiles(keys keySet) error {
	for _, dir := range []string{"pki", "conf/cni", "log", "log/pods", "log/containers", "etcd", "kubelet", "tmp", "bin", "tools"} {
		if err := os.MkdirAll(s.Dir.join(dir), 0o700); err != nil {
			return err
		}
	}
	files, err := s.files()
	if err != nil {
		return err
	}
	for name, data := range keys.files {
		files["pki/"+name] = data
	}
	for name, data := range keys.kubeconfigs {
		files["conf/"+name+".kubeconfig"] = data
	}
	for name, data := range files {
		if err := os.WriteFile(s.Dir.join(name), data, 0o600); err != nil {
			return err
		}
	}
	// The kubelet and kube-proxy run nft by name, containerd its shim.
	for name, dir := range map[string]string{"containerd-shim-runc-v2": "bin", "runc": "bin", "nft": "bin", "kubectl": "tools"} {
		if err := os.Symlink(s.Programs[name].Path, s.Dir.join(dir, name)); err != nil {
			return err
		}
	}
	return writeJSON(s.Dir.spec(), s)
}

// keep lists the folders of programs, state and images, which must stay visible beneath
// the lab's own mounts.
func (s *spec) keep() []string {
	dirs := []string{string(s.Dir), s.ImageStore, s.CNI}
	for _, program := range s.Programs {
		dirs = append(dirs, filepath.Dir(program.Path))
		for _, kv := range program.Env {
			if _, value, ok := strings.Cut(kv, "="); ok && filepath.IsAbs(value) {
				dirs = append(dirs, filepath.SplitList(value)...)
			}
		}
	}
	for _, image := range s.Images {
		dirs = append(dirs, filepath.Dir(image.Path))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// auditPolicy has the API server log who made which request, and whether it was allowed.
// It omits requests of the node's own programs and of controllers. See audit.k8s.io/v1,
// Policy.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: None, userGroups: ["system:nodes", "system:serviceaccounts:kube-system", "system:serviceaccounts:istio-system", "system:serviceaccounts:linkerd"]}
- {level: None, users: ["system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy", "system:apiserver"]}
- {level: Metadata}
`

// auditLog is the component's name in `lab logs`.
const auditLog = "audit"

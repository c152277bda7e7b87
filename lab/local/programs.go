package local

import (
	"os"
	"strings"
)

// programNames lists the programs of a lab.
var programNames = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
	"containerd", "containerd-shim-runc-v2", "ctr", "runc", "nft", "kwok", "kubectl"}

// nodeGOGC trades memory of the node's own programs for CPU: they start sooner and
// disturb trials less.
const nodeGOGC = "200"

// process is one supervised program.
type process struct {
	name string // of the log file, and in the status
	path string
	args []string
	env  []string

	files []*os.File // inherited in addition to its log
	flags uintptr    // flags of its new namespaces
}

// command returns the process of a component.
func (s *spec) command(name string, args ...string) process {
	program := s.Programs[name]
	env := append([]string{"PATH=" + s.path(), "HOME=" + runDir, "TMPDIR=" + s.Dir.join("tmp"), "GOGC=" + nodeGOGC}, program.Env...)
	return process{name: name, path: program.Path, args: args, env: env}
}

// path returns PATH inside the lab: the lab's own tools, then the host's (mount,
// umount).
func (s *spec) path() string {
	return s.Dir.join("bin") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

func (s *spec) etcd() process {
	return s.command("etcd",
		"--name=lab", "--data-dir="+s.Dir.join("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=unix://"+etcdSocket, "--listen-peer-urls=unix://"+etcdPeer,
		// Advertised addresses need host and port; they are never dialled.
		"--advertise-client-urls=http://localhost:2379", "--initial-advertise-peer-urls=http://localhost:2380", "--initial-cluster=lab=http://localhost:2380")
}

func (s *spec) apiserver() process {
	p := s.command("kube-apiserver",
		"--etcd-servers=unix://"+etcdSocket,
		"--bind-address="+s.Network.Node.Addr().String(), "--advertise-address="+s.Network.Node.Addr().String(), "--secure-port=6443",
		"--tls-cert-file="+s.Dir.pki("apiserver.crt"), "--tls-private-key-file="+s.Dir.pki("apiserver.key"),
		"--client-ca-file="+s.Dir.pki("ca.crt"), "--anonymous-auth=false",
		"--service-account-key-file="+s.Dir.pki("service-accounts.key"), "--service-account-signing-key-file="+s.Dir.pki("service-accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--kubelet-certificate-authority="+s.Dir.pki("ca.crt"),
		"--kubelet-client-certificate="+s.Dir.pki("kubelet-client.crt"), "--kubelet-client-key="+s.Dir.pki("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file="+s.Dir.pki("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file="+s.Dir.pki("front-proxy-client.crt"), "--proxy-client-key-file="+s.Dir.pki("front-proxy-client.key"),
		"--service-cluster-ip-range="+s.Network.Services.String(),
		"--enable-aggregator-routing=true",     // reach webhooks through their endpoints
		"--enable-priority-and-fairness=false", // one user, no need to queue
		"--profiling=false",
	)
	if s.Audit {
		p.args = append(p.args, "--audit-policy-file="+s.Dir.conf("audit.yaml"), "--audit-log-path="+s.Dir.log(auditLog), "--audit-log-mode=blocking")
	}
	return p
}

func (s *spec) controllers() process {
	return s.command("kube-controller-manager",
		"--kubeconfig="+s.Dir.conf("kube-controller-manager.kubeconfig"),
		"--service-account-private-key-file="+s.Dir.pki("service-accounts.key"), "--root-ca-file="+s.Dir.pki("ca.crt"),
		"--cluster-signing-cert-file="+s.Dir.pki("ca.crt"), "--cluster-signing-key-file="+s.Dir.pki("ca.key"),
		"--use-service-account-credentials=true",
		"--leader-elect=false", "--secure-port=0", "--profiling=false",
		"--allocate-node-cidrs=false", "--configure-cloud-routes=false",
		// Thousands of simulated pods arrive together; with the defaults most workers
		// would be waiting for responses.
		"--concurrent-deployment-syncs=25", "--concurrent-replicaset-syncs=25", "--concurrent-service-endpoint-syncs=25", "--concurrent-namespace-syncs=20",
		"--kube-api-qps=2000", "--kube-api-burst=4000")
}

func (s *spec) scheduler() process {
	return s.command("kube-scheduler", "--kubeconfig="+s.Dir.conf("kube-scheduler.kubeconfig"),
		"--leader-elect=false", "--secure-port=0", "--profiling=false", "--kube-api-qps=2000", "--kube-api-burst=4000")
}

// containerd pulls images through the lab's proxy; it reaches addresses in the lab
// directly.
func (s *spec) containerd() process {
	p := s.command("containerd", "--config="+s.Dir.conf("containerd.toml"))
	inside := []string{"localhost", "127.0.0.0/8", ".cluster.local", s.Network.Host.Masked().String(), s.Network.Services.String(), s.Network.Pods.String()}
	if s.Network.Nodes.IsValid() {
		inside = append(inside, s.Network.Nodes.String())
	}
	p.env = append(p.env, "HTTP_PROXY=http://"+egressAddress, "HTTPS_PROXY=http://"+egressAddress, "NO_PROXY="+strings.Join(inside, ","))
	return p
}

func (s *spec) kubelet() process {
	p := s.command("kubelet", "--config="+s.Dir.conf("kubelet.yaml"), "--kubeconfig="+s.Dir.conf("kubelet.kubeconfig"),
		"--hostname-override="+s.Self.Name, "--root-dir="+kubeletDir, "--node-ip="+s.Self.Address.String())
	p.env = append(p.env, s.Programs["nft"].Env...)
	if labels := s.Self.labels(); labels != "" {
		p.args = append(p.args, "--node-labels="+labels)
	}
	return p
}

func (s *spec) kubeProxy() process {
	p := s.command("kube-proxy", "--config="+s.Dir.conf("kube-proxy.yaml"), "--hostname-override="+s.Self.Name)
	p.env = append(p.env, s.Programs["nft"].Env...)
	return p
}

// kwok waits for nodes with its annotation, and idles without any.
func (s *spec) kwok() process {
	return s.command("kwok", "--kubeconfig="+s.Dir.conf("kwok.kubeconfig"), "--config="+s.Dir.conf("kwok.yaml"),
		"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--node-ip="+s.Network.Node.Addr().String(), "--cidr="+kwokPods, "--node-lease-duration-seconds=40")
}

// kwokPods is the address range of simulated pods, which has no route.
const kwokPods = "172.31.0.0/16"

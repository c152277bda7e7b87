package local

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshtrial/meshtrial/lab"
)

// metrics-server provides the figures of `kubectl top`: it reads the kubelets every
// metricsEvery, and serves the API metrics.k8s.io behind the API server. See
// [Options.MetricsServer].
const (
	metricsServer = "metrics-server" // the program, its user, its Service
	metricsPort   = 4443             // on the node's address
	metricsEvery  = 15 * time.Second // metrics-server's default
)

// metricsName is the name that the API server expects in metrics-server's certificate.
const metricsName = metricsServer + ".kube-system.svc"

// metrics is metrics-server's process. It verifies the kubelet's certificate, which the
// lab's authority signed. It selects real nodes: simulated ones have the address of a
// real one, whose figures it would show.
func (s *spec) metrics() process {
	kubeconfig, address := s.Dir.conf(metricsServer+".kubeconfig"), s.Network.Node.Addr().String()
	return s.command(metricsServer,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address="+address, "--secure-port="+strconv.Itoa(metricsPort),
		"--tls-cert-file="+s.Dir.pki(metricsServer+".crt"), "--tls-private-key-file="+s.Dir.pki(metricsServer+".key"),
		"--kubelet-certificate-authority="+s.Dir.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port",
		"--node-selector=kubernetes.io/hostname"+selected(s.Nodes),
		"--metric-resolution="+metricsEvery.String(),
		"--profiling=false",
	)
}

// selected selects nodes by a label with their names.
func selected(nodes []Node) string {
	if len(nodes) == 1 {
		return "=" + nodes[0].Name
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return " in (" + strings.Join(names, ",") + ")"
}

// addMetrics adds metrics-server's serving certificate and its user's kubeconfig to a
// lab's keys.
func addMetrics(addresses network, ca *authority, files, kubeconfigs map[string][]byte) error {
	node, err := addresses.node()
	if err != nil {
		return err
	}
	pair, err := ca.server(metricsServer, []string{metricsName}, []net.IP{node})
	if err != nil {
		return fmt.Errorf("certificate %s: %w", metricsServer, err)
	}
	files[metricsServer+".crt"], files[metricsServer+".key"] = pair.cert, pair.key
	if pair, err = ca.client(metricsServer); err != nil {
		return fmt.Errorf("certificate of %s: %w", metricsServer, err)
	}
	kubeconfigs[metricsServer], err = kubeconfigYAML(addresses.apiURL(), ca.pem, metricsServer, pair)
	return err
}

// metricsRoles lets metrics-server read figures of nodes, list nodes and pods, and have
// the API server authenticate and authorize its clients.
func metricsRoles() []byte {
	return []byte(strings.ReplaceAll(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: meshtrial:USER}
rules:
- {apiGroups: [""], resources: [nodes/metrics], verbs: [get]}
- {apiGroups: [""], resources: [nodes, pods], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: meshtrial:USER}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: meshtrial:USER}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: USER}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: meshtrial:USER-delegates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:auth-delegator}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: USER}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: meshtrial:USER, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: USER}]
`, "USER", metricsServer))
}

// metricsService registers metrics.k8s.io: its server is a process on the node, so that
// the Service has its address without a pod.
func metricsService(node string, ca []byte) []byte {
	return []byte(strings.NewReplacer("NAME", metricsServer, "ADDRESS", node, "PORT", strconv.Itoa(metricsPort),
		"AUTHORITY", base64.StdEncoding.EncodeToString(ca)).Replace(`
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: kube-system}
spec: {ports: [{name: https, port: 443, targetPort: PORT}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: NAME, namespace: kube-system, labels: {kubernetes.io/service-name: NAME, endpointslice.kubernetes.io/managed-by: meshtrial}}
addressType: IPv4
endpoints: [{addresses: [ADDRESS], conditions: {ready: true}}]
ports: [{name: https, port: PORT, protocol: TCP}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  service: {name: NAME, namespace: kube-system}
  caBundle: AUTHORITY
`))
}

// startMetrics starts metrics-server once its user may read the authentication
// configuration, without which it does not start.
func (n *node) startMetrics(ctx, life context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", n.spec.Dir.conf(metricsServer+".kubeconfig"))
	if err != nil {
		return err
	}
	path := "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
	if err := awaitOK(ctx, config, path, n.sup.failing); err != nil {
		return fmt.Errorf("%s has not got its rights: %w", metricsServer, err)
	}
	n.sup.keep(life, n.spec.metrics())
	return nil
}

// installMetrics gives metrics-server its rights, waits for it, and then registers its
// API. While a registered API does not answer, clients cannot list the API's resources.
func (u *starter) installMetrics(ctx context.Context, applier *lab.Applier, config *rest.Config) error {
	if err := applier.Apply(ctx, metricsRoles()); err != nil {
		return err
	}
	see := func(err error) error {
		return fmt.Errorf("%s does not answer: %w; see %s", metricsServer, err, filepath.Join(u.failedLogs(), metricsServer+".log"))
	}
	node := u.record.Network.Node.Addr().String()
	direct := &rest.Config{Host: "https://" + net.JoinHostPort(node, strconv.Itoa(metricsPort)), TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}}
	if err := awaitOK(ctx, direct, "/livez", u.metricsFailing); err != nil {
		return see(err)
	}
	if err := applier.Apply(ctx, metricsService(node, config.CAData)); err != nil {
		return err
	}
	if err := awaitOK(ctx, config, "/apis/metrics.k8s.io/v1beta1/nodes", u.metricsFailing); err != nil {
		return see(err)
	}
	u.say("%s available", metricsServer)
	return nil
}

// metricsFailing returns an error if metrics-server keeps ending.
func (u *starter) metricsFailing() error {
	all, err := queryInit(u.record.InitPID)
	if err != nil {
		return nil // whoever waits for init hears of its end
	}
	for _, c := range all {
		if c.Name == metricsServer && c.Restarts >= restartsFailing {
			return fmt.Errorf("it ended %d times: %s", c.Restarts, c.LastExit)
		}
	}
	return nil
}

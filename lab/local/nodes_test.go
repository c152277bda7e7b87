package local

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/testing/must"
)

// threeNodes returns the spec of a lab of three nodes, next to that of one.
func threeNodes(t *testing.T) *spec {
	t.Helper()
	s := testSpec(t)
	places, err := placesOf(3, nil)
	must.OK(t, err)
	s.Network.Nodes = netip.MustParsePrefix("10.253.0.0/24")
	s.Self, s.Nodes = Node{}, s.Network.nodesAt(places)
	return s
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		nodes int
		zones string
		want  string // of the nodes in order; after !, part of the error
	}{
		{1, "", "/"},
		{1, "a", "lab/a"},
		{3, "", "lab/zone-1 lab/zone-2 lab/zone-3"},
		{3, "eu/a us/b", "eu/a us/b eu/a"},
		{5, "a b", "lab/a lab/b lab/a lab/b lab/a"},
		{0, "", "!1 to 16 nodes"},
		{17, "", "!1 to 16 nodes"},
		{2, "a b c", "!3 zones are more"},
		{3, "a/b/c", "!b/c"},
		{3, "/a", "!zone"},
		{3, "-a", "!zone"},
		{3, "a,b", "!zone"},
	} {
		places, err := placesOf(c.nodes, strings.Fields(c.zones))
		if says, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), says) {
				t.Errorf("%d nodes in %q: %v", c.nodes, c.zones, err)
			}
			continue
		}
		var got []string
		for _, p := range places {
			got = append(got, p.region+"/"+p.zone)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%d nodes in %q: %q, %v", c.nodes, c.zones, got, err)
		}
	}
}

// Nodes' addresses are in the lab's ranges and do not overlap.
func TestNodesAt(t *testing.T) {
	n, err := chooseNetwork(nil, MaxNodes)
	must.OK(t, err)
	places, err := placesOf(MaxNodes, nil)
	must.OK(t, err)
	nodes := n.nodesAt(places)
	for i, one := range nodes {
		if !n.Nodes.Contains(one.Address) || !n.Pods.Overlaps(one.Pods) || one.Pods.Bits() < n.Pods.Bits() || 1<<(32-one.Pods.Bits()) < 2*MaxPods {
			t.Errorf("%+v is outside of %+v", one, n)
		}
		for _, other := range nodes[:i] {
			if one.Name == other.Name || one.Address == other.Address || one.Pods.Overlaps(other.Pods) {
				t.Errorf("%+v and %+v", one, other)
			}
		}
		if len(one.Name) > 15 {
			t.Errorf("%q is too long for an interface", one.Name)
		}
	}
	if got := testNetwork.nodesAt(make([]place, 1)); len(got) != 1 || got[0] != (Node{Name: "lab", Address: testNetwork.Node.Addr(), Pods: testNetwork.Pods}) {
		t.Errorf("a single node: %+v", got)
	}
}

// A node's files concern only itself, and contain no key of the lab's authority.
func TestFilesOfNodes(t *testing.T) {
	s := threeNodes(t)
	own, keys, err := pkiFiles(s.Network, s.Nodes, testTime)
	must.OK(t, err)
	if own.kubeconfigs["kubelet"] != nil || own.files["kubelet-server.key"] != nil {
		t.Error("the control plane of several nodes has a node's keys")
	}
	files, err := s.files()
	if err != nil || files["conf/kubelet.yaml"] != nil || files["conf/kwok.yaml"] == nil {
		t.Errorf("files of the control plane: %d, %v", len(files), err)
	}
	for i, n := range s.Nodes {
		m := s.of(n)
		must.OK(t, m.writeFiles(keys[n.Name]))
		read := func(name string) string {
			data, err := os.ReadFile(m.Dir.join(name))
			if err != nil {
				t.Error(err)
			}
			return string(data)
		}
		if cni := read("conf/cni/10-lab.conflist"); !strings.Contains(cni, n.Pods.String()) {
			t.Errorf("%s: its pods' addresses: %s", n.Name, cni)
		}
		if proxy := read("conf/kube-proxy.yaml"); !strings.Contains(proxy, "clusterCIDR: "+s.Network.Pods.String()) || !strings.Contains(proxy, n.Address.String()) {
			t.Errorf("%s: kube-proxy: %s", n.Name, proxy)
		}
		if kubelet := read("conf/kubelet.yaml"); !strings.Contains(kubelet, "cgroupRoot: /meshtrial-abc123/"+n.Name+"\n") {
			t.Errorf("%s: kubelet: %s", n.Name, kubelet)
		}
		if args := m.kubelet().args; !slices.Contains(args, fmt.Sprintf("--node-labels=%s=lab,%s=zone-%d", labelRegion, labelZone, i+1)) || !slices.Contains(args, "--hostname-override="+n.Name) {
			t.Errorf("%s: %q", n.Name, args)
		}
		cert := parseCert(t, []byte(read("pki/kubelet-server.crt")))
		if err := cert.VerifyHostname(n.Address.String()); err != nil || cert.VerifyHostname(s.Nodes[(i+1)%3].Address.String()) == nil {
			t.Errorf("%s: certificate of %v, %v", n.Name, cert.IPAddresses, err)
		}
		for _, none := range []string{"pki/ca.key", "pki/service-accounts.key", "conf/admin.kubeconfig"} {
			if _, err := os.Stat(m.Dir.join(none)); err == nil {
				t.Errorf("%s has %s", n.Name, none)
			}
		}
		if m.several() || m.hostname() != n.Name {
			t.Errorf("%s: several %t, host name %s", n.Name, m.several(), m.hostname())
		}
	}
	one := testSpec(t)
	if args := one.kubelet().args; slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--node-labels") }) {
		t.Errorf("a single node has labels: %q", args)
	}
}

func TestNodeObjects(t *testing.T) {
	if nodeObjects(testNodes) != nil {
		t.Error("a single node is made before its kubelet does")
	}
	objects, err := lab.ParseObjects(append(nodeRoles(), nodeObjects(threeNodes(t).Nodes)...))
	must.OK(t, err)
	var names []string
	for _, o := range objects {
		if o.GetKind() == "Node" {
			names = append(names, o.GetName()+" "+o.GetLabels()[labelZone])
		}
	}
	if !slices.Equal(names, []string{"lab-1 zone-1", "lab-2 zone-2", "lab-3 zone-3"}) {
		t.Errorf("%q", names)
	}
}

// What a node's containerd adds to or removes from its store does not affect the
// store that it was cloned from.
func TestCloneOfAStore(t *testing.T) {
	s := fakeStore(t)
	must.OK(t, s.save(map[string]string{"image:1": "sha256:1"}))
	for live := range s.databases() {
		put(t, live, "of a lab of one node")
	}
	to := s.node("abc123", "lab-1")
	for range 2 { // the second one is a fresh clone
		must.OK(t, s.clone(to))
		for live := range to.databases() {
			if data, err := os.ReadFile(live); err != nil || string(data) != "database" {
				t.Errorf("%s: %q, %v", live, data, err)
			}
			put(t, live, "of the node")
		}
		for path, want := range map[string]string{to.blobs() + "/aa": "manifest", to.snapshots() + "/1/fs/usr/bin/envoy": "envoy"} {
			if data, err := os.ReadFile(path); err != nil || string(data) != want {
				t.Errorf("%s: %q, %v", path, data, err)
			}
		}
		if _, err := os.Stat(to.snapshots() + "/2"); err == nil {
			t.Error("the clone has what the one before it had")
		}
		put(t, to.snapshots()+"/2/fs/scratch", "of a container")
		put(t, to.blobs()+"/bb", "pulled")
		for _, gone := range []string{to.snapshots() + "/1", to.blobs() + "/aa"} { // an image is removed
			must.OK(t, os.RemoveAll(gone))
		}
	}
	must.OK(t, os.RemoveAll(s.nodes("abc123")))
	if images, why, err := s.restore(); why != nil || err != nil || images["image:1"] == "" {
		t.Errorf("the store changed: %v, %v", why, err)
	}
	empty := imageStore{t.TempDir()}
	if err := empty.clone(empty.node("abc123", "lab-1")); err != nil {
		t.Errorf("of an empty store: %v", err)
	}
}

func TestNotReady(t *testing.T) {
	at := func(status corev1.ConditionStatus, second int) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status,
			Message: "container runtime is down", LastHeartbeatTime: metav1.NewTime(testTime.Add(time.Duration(second) * time.Second))}}}}
	}
	for _, c := range []struct {
		node *corev1.Node
		want string
	}{
		{&corev1.Node{}, "not registered"},
		{at(corev1.ConditionTrue, 0), "not reported anything"}, // before it was killed
		{at(corev1.ConditionFalse, 1), "container runtime is down"},
		{at(corev1.ConditionTrue, 1), ""},
	} {
		if got := notReady(c.node, testTime); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c.node.Status.Conditions, got)
		}
	}
}

func TestNodeStates(t *testing.T) {
	nodes := threeNodes(t).Nodes
	got := nodeStates(nodes, StateRunning, []ComponentStatus{{Name: "etcd", PID: 3}, {Name: nodeComponent, Node: "lab-1", PID: 4}, {Name: "kubelet", Node: "lab-1"},
		{Name: nodeComponent, Node: "lab-2", LastExit: "was ended by signal SIGKILL"}, {Name: nodeComponent, Node: "lab-3"}})
	for i, want := range []string{StateRunning, StateDead, StateStarting} {
		if got[i].State != want || got[i].Name != nodes[i].Name {
			t.Errorf("%+v, want %s", got[i], want)
		}
	}
	if one := nodeStates(testNodes, StateStarting, nil); len(one) != 1 || one[0].State != StateStarting {
		t.Errorf("a single node: %+v", one)
	}
}

// The logs of several nodes are found while the lab is running, and after a failed
// start.
func TestLogsOfNodes(t *testing.T) {
	p := paths{t.TempDir()}
	u := &starter{paths: p, record: &record{Schema: recordSchema, ID: "abc123", Nodes: threeNodes(t).Nodes}}
	dir := p.dir("abc123")
	put(t, dir.log("etcd"), "e")
	put(t, dir.nodeDir("lab-2").log("kubelet"), "k")
	put(t, dir.nodeDir("lab-2").join("log", "pods", "a.log"), "of a pod")
	must.OK(t, p.writeRecord(u.record))
	look := func(when string) {
		files, err := LogFiles(p.base)
		if err != nil || len(files) != 2 {
			t.Errorf("%s: %v, %v", when, files, err)
		}
		for name, want := range map[string]string{"etcd": "e", "lab-2/kubelet": "k"} {
			if data, _ := os.ReadFile(files[name]); string(data) != want {
				t.Errorf("%s: %s is %q", when, name, files[name])
			}
		}
	}
	look("a lab that runs")
	u.keepLogs()
	must.OK(t, errors.Join(os.RemoveAll(string(dir)), os.Remove(p.record())))
	look("one that failed")
}

// The node stores that a record names are removed with the lab, and nothing else of
// the store is.
func TestSweepOfNodes(t *testing.T) {
	p, store := paths{t.TempDir()}, fakeStore(t)
	put(t, store.node("0badf0", "lab-1").root("a"), "a")
	put(t, store.node("0badf1", "lab-1").root("a"), "of another lab")
	must.OK(t, p.writeRecord(&record{Schema: recordSchema, ID: "0badf0", ImageStore: store.dir}))
	must.OK(t, sweep(t.Context(), p))
	left, err := list(filepath.Join(store.dir, "nodes"))
	if err != nil || !slices.Equal(left, []string{"0badf1"}) {
		t.Errorf("left %q, %v", left, err)
	}
	if _, err := os.Stat(store.blobs() + "/aa"); err != nil {
		t.Error(err)
	}
}

// The scheduler starts once all nodes are ready and untainted, or after its limit.
func TestAwaitOpenNodes(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Now()}}}}
	}
	for name, c := range map[string]struct {
		second *corev1.Node // comes after a second
		open   bool
	}{
		"open":      {node("b", corev1.ConditionTrue), true},
		"not ready": {node("b", corev1.ConditionFalse), false},
		"tainted":   {node("b", corev1.ConditionTrue, corev1.Taint{Key: "node.kubernetes.io/not-ready"}), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube, began := fakecluster.New(node("a", corev1.ConditionTrue)), time.Now()
				time.AfterFunc(time.Second, func() { kube.Tracker().Add(c.second) })
				awaitOpenNodes(t.Context(), kube, 2)
				if took := time.Since(began); took < time.Second || c.open != (took < 2*time.Second) || took > openLimit {
					t.Errorf("waited %v", took)
				}
			})
		})
	}
}

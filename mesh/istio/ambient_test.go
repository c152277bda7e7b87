package istio

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestDecorateAmbient(t *testing.T) {
	pod := corev1.PodTemplateSpec{}
	must.OK(t, (&Mesh{}).Decorate(mesh.Workload{Name: "server-ambient", Carrier: study.SidecarsAmbient}, &pod))
	if pod.Labels["istio.io/dataplane-mode"] != "ambient" || pod.Labels["sidecar.istio.io/inject"] != "false" {
		t.Errorf("labels %v", pod.Labels)
	}
	pod = corev1.PodTemplateSpec{}
	if err := (&Mesh{}).Decorate(mesh.Workload{Name: "server-plain"}, &pod); err != nil || pod.Labels["istio.io/dataplane-mode"] != "none" {
		t.Errorf("a pod of nobody's has labels %v, %v", pod.Labels, err)
	}
	err := (&Mesh{}).Decorate(mesh.Workload{Name: "server-ambient", Carrier: study.SidecarsAmbient, Proxy: proxy(nil)}, &pod)
	refuses(t, "a sidecar in the ambient mesh", err, "workload server-ambient: a pod with a sidecar is not in the ambient mesh", "")
}

// series returns the key of a ztunnel series for connections or bytes to the worker's pod.
func series(name, reporter, policy string) string {
	return observe.Metric{Name: name, Labels: map[string]string{"reporter": reporter, "connection_security_policy": policy,
		"source_workload": "client-ambient", "destination_workload": "server-ambient", "destination_workload_namespace": "meshtrial-1"}}.Key()
}

// ambientTrial returns the evidence of a trial whose requests ztunnel carried, with both
// pods on one node or on two.
func ambientTrial(nodes int) mesh.Evidence {
	cell := record.Cell{"sidecars": "ambient", "protocol": "http1", "payload": "1KiB"}
	e := mesh.Evidence{Cell: cell, Endpoint: mesh.Endpoint{Service: "server-ambient", Namespace: "meshtrial-1", Port: 8080},
		Requests: requests, Connections: connections, Way: study.WayOf(cell), Proxies: map[string]*mesh.Passed{},
		Worker: map[string]float64{"requests": requests, "connections": connections}, Wire: &mesh.Wire{Sent: requests * 1200, Read: requests * 1100}}
	rise := func(reporters ...string) *mesh.Passed {
		p := &mesh.Passed{Rise: map[string]float64{
			`istio_tcp_connections_opened_total{destination_workload="other",destination_workload_namespace="meshtrial-1",reporter="source"}`: 5,
		}, Total: map[string]float64{}}
		for _, r := range reporters {
			p.Rise[series(openedTotal, r, "mutual_tls")] = connections
			p.Rise[series(sentTotal, r, "mutual_tls")] = requests * 1100
			p.Rise[series(receivedTotal, r, "mutual_tls")] = requests * 1200
			// An earlier trial of the same pods opened as many, and all of them have
			// ended.
			p.Total[series(openedTotal, r, "mutual_tls")], p.Total[series(closedTotal, r, "mutual_tls")] = 2*connections, connections+3
		}
		return p
	}
	if nodes == 1 {
		e.Way = e.Way.OnOneNode()
		e.Proxies[record.PartNode] = rise("source", "destination")
		return e
	}
	e.Proxies[record.PartClientNode], e.Proxies[record.PartServerNode] = rise("source"), rise("destination")
	return e
}

func TestVerifyAmbient(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		client, server := record.PartClientNode, record.PartServerNode
		if nodes == 1 {
			client, server = record.PartNode, record.PartNode
		}
		move := func(part, name, reporter string, n float64) func(e *mesh.Evidence) {
			return func(e *mesh.Evidence) {
				e.Proxies[part].Rise[series(name, reporter, "mutual_tls")] -= n
			}
		}
		bodies := func(e *mesh.Evidence) {
			e.Wire = &mesh.Wire{Sent: requests * 1024, Read: requests * 1024, Bodies: true}
		}
		// A library's connection broke and was replaced.
		remade := func(e *mesh.Evidence) {
			bodies(e)
			e.Connections, e.Remade = e.Connections+1, 1
			e.Worker["connections"]++
			move(client, openedTotal, "source", -1)(e)
			move(server, openedTotal, "destination", -1)(e)
		}
		for name, test := range map[string]struct {
			change func(e *mesh.Evidence)
			want   []string
		}{
			"as it should be": {func(*mesh.Evidence) {}, nil},
			"a connection by": {move(client, openedTotal, "source", 1), []string{"client-ztunnel"}},
			"the server's side is passed by": {func(e *mesh.Evidence) {
				for _, name := range []string{openedTotal, sentTotal, receivedTotal} {
					delete(e.Proxies[server].Rise, series(name, "destination", "mutual_tls"))
				}
			}, []string{"server-ztunnel", "server-ztunnel-answers", "server-ztunnel-bytes", "worker-connections", "ztunnel-sides", "ztunnel-sides-answers"}},
			"a byte too many":              {move(client, receivedTotal, "source", -1), []string{"client-ztunnel-bytes", "ztunnel-sides"}},
			"an answer's byte lost":        {move(server, sentTotal, "destination", 1), []string{"server-ztunnel-answers", "ztunnel-sides-answers"}},
			"the worker has one of others": {func(e *mesh.Evidence) { e.Worker["connections"]++ }, []string{"worker-connections"}},
			"one failed":                   {func(e *mesh.Evidence) { e.Proxies[client].Rise[series(failedTotal, "source", "unknown")] = 1 }, []string{"client-ztunnel-failed"}},
			"more have ended than began": {func(e *mesh.Evidence) {
				e.Proxies[server].Total[series(closedTotal, "destination", "mutual_tls")] = 2*connections + 1
			}, []string{"server-ztunnel-open"}},
			"an earlier trial's have not ended": {func(e *mesh.Evidence) {
				e.Proxies[server].Total[series(closedTotal, "destination", "mutual_tls")] = 3
			}, []string{"server-ztunnel-open"}},
			"a request that nobody answered": {func(e *mesh.Evidence) {
				e.Unknown = 1
				e.Wire.Sent += 1200 // it may or may not have got this far
				move(client, receivedTotal, "source", -500)(e)
				e.Proxies[client].Rise[series(failedTotal, "source", "mutual_tls")] = 1
			}, nil},
			"more than it weighs": {func(e *mesh.Evidence) {
				e.Unknown = 1
				e.Wire.Sent += 1200
				move(client, receivedTotal, "source", -1201)(e)
			}, []string{"client-ztunnel-bytes", "ztunnel-sides"}},
			"a request sent twice, whose bytes are known": {func(e *mesh.Evidence) {
				e.Wire.Sent += 1200
				move(client, receivedTotal, "source", -1200)(e)
				move(server, receivedTotal, "destination", -1200)(e)
			}, nil},
			"only once through the server's": {func(e *mesh.Evidence) {
				e.Remade = 1 // which the generator's own protocols never resend
				e.Wire.Sent += 1200
				move(client, receivedTotal, "source", -1200)(e)
			}, []string{"server-ztunnel-bytes", "ztunnel-sides"}},
			"a library's, only once through the server's": {func(e *mesh.Evidence) {
				remade(e)
				move(client, receivedTotal, "source", -1200)(e)
			}, nil},
			"more than was under way on one connection": {func(e *mesh.Evidence) {
				remade(e)
				move(client, receivedTotal, "source", -1203)(e)
			}, []string{"ztunnel-sides"}},
			"a library's, and no connection made anew": {func(e *mesh.Evidence) {
				bodies(e)
				move(client, receivedTotal, "source", -1200)(e)
			}, []string{"ztunnel-sides"}},
			"bodies alone are known": {bodies, nil},
			"fewer than the bodies": {func(e *mesh.Evidence) {
				e.Wire = &mesh.Wire{Sent: requests * 1024, Read: requests*1100 + 1, Bodies: true}
			}, []string{"client-ztunnel-answers", "server-ztunnel-answers"}},
			"a graph's, of which only rises are known": {func(e *mesh.Evidence) {
				e.Wire = nil
				for _, p := range e.Proxies {
					p.Total = nil
				}
			}, nil},
			"another node's ztunnel": {func(e *mesh.Evidence) {
				e.Beside = map[string]*mesh.Passed{"c": {Rise: map[string]float64{}}, "d": {Rise: map[string]float64{series(openedTotal, "source", "unknown"): 1}}}
			}, []string{"ztunnel-beside"}},
			"one in plain text": {func(e *mesh.Evidence) {
				move(client, openedTotal, "source", 1)(e)
				e.Proxies[client].Rise[series(openedTotal, "source", "unknown")] = 1
			}, []string{"client-hbone"}},
			"one of nobody's": {func(e *mesh.Evidence) {
				move(server, openedTotal, "destination", 1)(e)
				e.Proxies[server].Rise[observe.Metric{Name: openedTotal, Labels: map[string]string{"reporter": "destination", "connection_security_policy": "mutual_tls", "source_principal": "unknown",
					"destination_workload": "server-ambient", "destination_workload_namespace": "meshtrial-1"}}.Key()] = 1
			}, []string{"server-identity"}},
			"no requests on them": {func(e *mesh.Evidence) {
				move(client, sentTotal, "source", requests*1100)(e)
				move(client, receivedTotal, "source", requests*1200)(e)
			}, []string{"client-ztunnel-answers", "client-ztunnel-bytes", "ztunnel-sides", "ztunnel-sides-answers"}},
			"nor are the generator's bytes": {func(e *mesh.Evidence) {
				e.Wire, e.Unknown = nil, 1 // the sides may differ
				move(client, sentTotal, "source", requests*1100)(e)
				move(client, receivedTotal, "source", requests*1200)(e)
			}, []string{"client-ztunnel-bytes"}},
			"others' connections":             {move(client, openedTotal, "source", -1), []string{"client-ztunnel"}},
			"probes may pass":                 {func(e *mesh.Evidence) { e.Connections, e.Probes = connections+4, 4 }, nil},
			"a sidecar beside":                {func(e *mesh.Evidence) { e.Proxies[record.PartServerProxy] = &mesh.Passed{Rise: map[string]float64{}} }, []string{"server-sidecar"}},
			"through a sidecar at the worker": {func(e *mesh.Evidence) { e.Worker["client_cert"] = 3 }, []string{"client-certificates"}},
		} {
			t.Run(fmt.Sprint(name, " on ", nodes), func(t *testing.T) {
				e := ambientTrial(nodes)
				test.change(&e)
				fails(t, e, test.want...)
			})
		}
		e := ambientTrial(nodes)
		delete(e.Proxies, client)
		if got := failed((&Mesh{}).Verify(e)); len(got) == 0 || !strings.HasSuffix(got[0], "-present") {
			t.Errorf("a ztunnel that was not read: %v", got)
		}
	}
	// Cells without ztunnel have no ztunnel checks.
	for _, c := range (&Mesh{}).Verify(trial(nil)) {
		if strings.Contains(c.Name, "ztunnel") || strings.Contains(c.Name, "hbone") {
			t.Errorf("a cell with sidecars has the check %s", c.Name)
		}
	}
	// If their nodes have one, it must not have forwarded anything.
	e := trial(nil)
	e.Beside = map[string]*mesh.Passed{"a": {Rise: map[string]float64{
		observe.Metric{Name: openedTotal, Labels: map[string]string{"reporter": "destination", "destination_workload": e.Endpoint.Service, "destination_workload_namespace": e.Endpoint.Namespace}}.Key(): 1,
		`istio_tcp_connections_opened_total{destination_workload="other",destination_workload_namespace="meshtrial-1",reporter="source"}`:                                                                 5,
	}}}
	fails(t, e, "ztunnel-beside")
}

// A running ztunnel must be the one named by the run's header.
func TestZtunnelFits(t *testing.T) {
	for _, c := range []struct {
		named, running string
		fits           bool
	}{
		{"1.31-e94018b3-0123", "1.31-e94018b3", true}, {"1.31.1-distroless", "1.31.1", true}, {"v1.31.1", "1.31.1", true}, {"1.31", "1.31.4", true},
		{"1.31.1", "1.31.2", false}, {"1.31.1", "1.30.1", false}, {"1.31-e94018b3-0123", "1.31-0f", false}, {"1.31.1", "1.31.10", false},
		{"latest", "1.31.2", true}, {"sha256:0a", "1.31.2", true}, {"1.31.1", "unknown", true}, {"1.31.1", "", true},
	} {
		m := &Mesh{found: AsFound{daemonSets: map[string]*appsv1.DaemonSet{
			agentName: setOf(agentName, "istio/install-cni:1.9.9"), ztunnelName: setOf(ztunnelName, "istio/ztunnel"+mark(c.named))}}}
		err := m.Fits(record.PlaceNode, mesh.ProxyState{Version: c.running})
		words := "istio/ztunnel" + mark(c.named)
		if c.fits {
			words = ""
		}
		tells(t, c, err, words, "rollout restart")
		if err := m.Fits(record.PlaceSidecar, mesh.ProxyState{Version: c.running}); err != nil {
			t.Errorf("a sidecar: %v", err)
		}
	}
	if err := (&Mesh{}).Fits(record.PlaceNode, mesh.ProxyState{Version: "1.31.1"}); err != nil {
		t.Errorf("a run that names none: %v", err)
	}
	// If the image has no version, istiod's version applies.
	for _, c := range []struct {
		istiod, named, running string
		fits                   bool
	}{
		{"1.31.0", "sha256:0a", "1.29.0", false}, {"v1.31.0-distroless", "latest", "1.30.9", false}, {"1.31-abc", "sha256:0a", "1.3.0", false},
		{"1.31.0", "1.29", "1.29.0", false}, {"1.31.0", "sha256:0a", "1.31.7", true}, {"1.31-abc", "latest", "1.31-e94018b3", true},
		{"sha256:0b", "sha256:0a", "1.29.0", true}, {"1.31.0", "sha256:0a", "unknown", true}, {"1.31.0", "sha256:0a", "", true},
	} {
		found := istiodAs("istio/pilot" + mark(c.istiod))
		found.daemonSets = map[string]*appsv1.DaemonSet{ztunnelName: setOf(ztunnelName, "istio/ztunnel"+mark(c.named))}
		err := (&Mesh{found: found}).Fits(record.PlaceNode, mesh.ProxyState{Version: c.running})
		if (err == nil) != c.fits || err != nil && (!strings.Contains(err.Error(), "Istio "+c.running) || !strings.Contains(err.Error(), "istiod is version "+c.istiod)) {
			t.Errorf("%q runs by the image %q, beside istiod %q: %v", c.running, c.named, c.istiod, err)
		}
	}
}

// podOf returns a template with one container.
func podOf(container, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: image}}}}
}

// istiodAs returns an installation with one istiod of an image, with these variables.
func istiodAs(image string, env ...corev1.EnvVar) AsFound {
	pod := podOf(istiodContainer, image)
	pod.Spec.Containers[0].Env = env
	return AsFound{istiods: []appsv1.Deployment{{Spec: appsv1.DeploymentSpec{Template: pod}}}}
}

// setOf returns a DaemonSet that runs on two nodes.
func setOf(name, image string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace}, Spec: appsv1.DaemonSetSpec{Template: podOf(name, image)},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2, NumberAvailable: 2}}
}

// mark returns the suffix of an image reference with a tag or a digest.
func mark(version string) string {
	if strings.HasPrefix(version, "sha256:") {
		return "@" + version
	}
	return ":" + version
}

// An incomplete ambient mesh is refused before anything starts.
func TestRefuseAmbient(t *testing.T) {
	on := func() AsFound {
		return istiodAs("docker.io/istio/pilot:1.31-abc", corev1.EnvVar{Name: "PILOT_ENABLE_AMBIENT", Value: "true"})
	}
	for name, test := range map[string]struct {
		change     func(f *AsFound)
		want, hint string
	}{
		"all there":          {func(*AsFound) {}, "", ""},
		"no ztunnel":         {func(f *AsFound) { delete(f.daemonSets, ztunnelName) }, "no DaemonSet ztunnel", "on this machine: meshtrial lab down, then run with --ztunnel DIR, or first meshtrial lab up --ztunnel DIR"},
		"no agent":           {func(f *AsFound) { delete(f.daemonSets, agentName) }, "namespaces istio-system and kube-system have no DaemonSet istio-cni-node", "--set sidecars=[none,both], for a service graph --set sidecars=both"},
		"a hidden agent":     {func(f *AsFound) { delete(f.daemonSets, agentName); f.agentHidden = true }, "and namespace istio-system has no DaemonSet istio-cni-node", "it may be in namespace kube-system, which this user may not read"},
		"one that is not up": {func(f *AsFound) { f.daemonSets[ztunnelName].Status.NumberAvailable = 1 }, "ztunnel is available on 1 of 2 nodes", "describe daemonset ztunnel"},
		"an agent elsewhere": {func(f *AsFound) {
			f.daemonSets[agentName].Namespace, f.daemonSets[agentName].Status.NumberAvailable = "kube-system", 1
		}, "node agent is available on 1 of 2 nodes", "kubectl -n kube-system describe daemonset istio-cni-node"},
		"a rollout":           {func(f *AsFound) { f.daemonSets[ztunnelName].Status.UpdatedNumberScheduled = 1 }, "ztunnel is being rolled out: 1 of 2", "rollout status"},
		"one not looked at":   {func(f *AsFound) { f.daemonSets[agentName].Generation = 3 }, "node agent is being rolled out: Kubernetes has not yet processed", "rollout status"},
		"on no node":          {func(f *AsFound) { f.daemonSets[agentName].Status = appsv1.DaemonSetStatus{} }, "node agent is available on 0 of 0 nodes", ""},
		"istiod without it":   {func(f *AsFound) { f.istiods[0].Spec.Template.Spec.Containers[0].Env = nil }, "PILOT_ENABLE_AMBIENT", "meshtrial lab down, then run with --ztunnel DIR"},
		"it is off":           {func(f *AsFound) { f.istiods[0].Spec.Template.Spec.Containers[0].Env[0].Value = "false" }, "PILOT_ENABLE_AMBIENT", "meshtrial lab down, then run with --ztunnel DIR"},
		"different versions":  {func(f *AsFound) { f.daemonSets[ztunnelName] = setOf(ztunnelName, "istio/ztunnel:1.30.2-distroless") }, "different versions", "upgrade"},
		"another patch":       {func(f *AsFound) { f.daemonSets[ztunnelName] = setOf(ztunnelName, "istio/ztunnel:1.31.7") }, "", ""},
		"a version of a hash": {func(f *AsFound) { f.daemonSets[ztunnelName] = setOf(ztunnelName, "istio/ztunnel@sha256:0a") }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := on()
			f.daemonSets = map[string]*appsv1.DaemonSet{ztunnelName: setOf(ztunnelName, "docker.io/istio/ztunnel:1.31-e94-0123"), agentName: setOf(agentName, "docker.io/istio/install-cni:1.31-abc")}
			test.change(&f)
			tells(t, name, f.refuseAmbient(), test.want, test.hint)
		})
	}
	// Simulated ztunnels do not need real ones.
	must.OK(t, on().refuseZtunnels())
	off := istiodAs("docker.io/istio/pilot:1.31-abc")
	refuses(t, "mode off", off.refuseZtunnels(), "PILOT_ENABLE_AMBIENT", "istiod_env: PILOT_ENABLE_AMBIENT=true")
	// An Envoy other than the lab's own discovers workloads.
	must.OK(t, off.refuseHBONE())
	refuses(t, "the lab's Envoy", istiodAs("docker.io/istio/pilot:"+components.IstioVersion).refuseHBONE(), "hbone true does not work with real sidecars", "")
	if got := on().Components(); len(got) != 2 || !reflect.DeepEqual(got[1], record.Component{Name: ambientComponent, Version: "on", Source: record.SourceOfMode}) {
		t.Errorf("a run does not name the mode of its istiod: %+v", got)
	}
	kube := fakecluster.New(setOf(ztunnelName, "istio/ztunnel:1.31.1"), setOf(agentName, "istio/install-cni:1.31.0"))
	var f AsFound
	must.OK(t, f.readAmbient(t.Context(), kube))
	want := []record.Component{{Name: "ztunnel", Version: "1.31.1", Source: "istio/ztunnel:1.31.1"}, {Name: "istio-cni-node", Version: "1.31.0", Source: "istio/install-cni:1.31.0"}}
	if got := f.ambient(); !reflect.DeepEqual(got, want) {
		t.Errorf("components %+v", got)
	}
	// On GKE istioctl installs only the agent in kube-system.
	agent := setOf(agentName, "istio/install-cni:1.31.0")
	agent.Namespace = "kube-system"
	for name, refused := range map[string]error{"seen": nil, "hidden": apierrors.NewForbidden(appsv1.Resource("daemonsets"), agentName, nil), "broken": errors.New("no leader")} {
		kube, f := fakecluster.New(setOf(ztunnelName, "istio/ztunnel:1.31.1"), agent), AsFound{}
		kube.PrependReactor("get", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) { return refused != nil, nil, refused })
		err := f.readAmbient(t.Context(), kube)
		if got := f.ambient(); (err != nil) != (name == "broken") || reflect.DeepEqual(got, want) != (name == "seen") || f.agentHidden != (name == "hidden") {
			t.Errorf("%s in kube-system: %+v, hidden %v, %v", name, got, f.agentHidden, err)
		}
		of := (&Mesh{found: f}).Proxies(record.PlaceNode)
		if in := map[bool]string{true: "kube-system", false: Namespace}[name == "seen"]; of.Namespace != Namespace || of.Agents.Namespace != in {
			t.Errorf("%s in kube-system: ztunnel is looked for in %s, the agent in %s", name, of.Namespace, of.Agents.Namespace)
		}
	}
}

// If istiod has its ztunnels in another namespace, the hint names it instead of suggesting
// to install an ambient mesh over it. The error always names the only namespace that is
// searched.
func TestAmbientElsewhere(t *testing.T) {
	for accounts, elsewhere := range map[string]string{
		"": "", "istio-system/ztunnel": "", "ztunnel": "",
		"kube-system/ztunnel": "kube-system/ztunnel", "istio-system/ztunnel, mesh/zt": "mesh/zt",
	} {
		for _, on := range []string{"true", "false"} {
			f := istiodAs("istio/pilot:1.31.0", corev1.EnvVar{Name: "PILOT_ENABLE_AMBIENT", Value: on}, corev1.EnvVar{Name: "CA_TRUSTED_NODE_ACCOUNTS", Value: accounts})
			want := "meshtrial lab down, then run with --ztunnel DIR"
			if elsewhere != "" && on == "true" {
				want = "istiod's ztunnels are " + elsewhere
			}
			refuses(t, accounts, f.refuseAmbient(), "no ambient mesh in namespace istio-system, the only namespace searched", want)
		}
	}
}

package istio

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Names and ports of Istio's ambient mode.
// See istio.io/docs, "Add workloads to an ambient mesh" and "Verify mutual TLS".
const (
	ztunnelName = "ztunnel"
	agentName   = "istio-cni-node"
	// dataplaneMode is the label of a pod, or of a namespace, that is in the mesh.
	dataplaneMode = "istio.io/dataplane-mode"
	ambientMode   = "ambient"
	statsPort     = 15020
	ambientEnv    = "PILOT_ENABLE_AMBIENT"
	notInMesh     = "none"
	// ambientComponent is among the components of a run whose istiod has the mode on.
	ambientComponent = "istiod's ambient mode"
)

// notAmbient tells what to do where there is no ambient mesh.
const notAmbient = "on this machine: meshtrial lab up --ambient --ztunnel DIR; on a cluster: istioctl install --set profile=ambient"

// Series of a ztunnel's statistics. It counts a connection when it passes it on, and
// bytes as they pass.
const (
	openedTotal   = "istio_tcp_connections_opened_total"
	sentTotal     = "istio_tcp_sent_bytes_total"
	receivedTotal = "istio_tcp_received_bytes_total"
)

// ztunnels are the proxies on nodes.
func ztunnels() mesh.Proxies {
	return mesh.Proxies{Namespace: Namespace, Selector: "app=" + ztunnelName, Containers: []string{proxyContainer}, AdminPort: statsPort,
		Admin: func(client *http.Client) mesh.Admin { return observe.ZtunnelAdmin{HTTPClient: client} },
		Stats: `^(` + openedTotal + `|` + sentTotal + `|` + receivedTotal + `)\{`}
}

// ambientChecks prove that each connection of the generator went through ztunnel on
// the client's side and again on the server's, between the two over HBONE, and that
// the requests went along.
func ambientChecks(e mesh.Evidence) []record.Check {
	var checks []record.Check
	for _, side := range []struct{ name, reporter, own string }{
		{record.SideClient, "source", record.PartClientNode}, {record.SideServer, "destination", record.PartServerNode},
	} {
		part := side.own
		if e.Way.Has(record.PartNode) { // it is both
			part = record.PartNode
		}
		p := e.Read(part)
		if !e.Way.Has(part) || p == nil {
			continue
		}
		to := map[string]string{"reporter": side.reporter, "destination_workload": e.Endpoint.Service, "destination_workload_namespace": e.Endpoint.Namespace}
		all := mesh.SumSeries(p.Rise, openedTotal, to)
		passed := mesh.SumSeries(p.Rise, sentTotal, to) + mesh.SumSeries(p.Rise, receivedTotal, to)
		to["connection_security_policy"] = "mutual_tls"
		high, low := e.Connections, e.Connections-e.Probes
		checks = append(checks,
			mesh.Expect(side.name+"-ztunnel", all, float64(low+high)/2, float64(high-low)/2, "connections through ztunnel on the "+side.name+"'s side"),
			mesh.Expect(side.name+"-hbone", mesh.SumSeries(p.Rise, openedTotal, to), all, 0, "of them over HBONE, with mutual TLS"),
			carried(side.name, e, passed))
	}
	return checks
}

// carried checks that ztunnel passed the requests on, whose bodies are the least that
// they weigh.
func carried(side string, e mesh.Evidence, bytes float64) record.Check {
	least := float64(e.Requests)
	if f, ok := study.FactorByName(study.FactorPayload); ok {
		if payload, ok := f.Value(e.Cell[study.FactorPayload]); ok {
			least *= max(1, payload)
		}
	}
	return record.Check{Name: side + "-ztunnel-bytes", OK: bytes >= least,
		Detail: fmt.Sprintf("bytes through ztunnel on the %s's side: %.0f; the bodies of the %d requests have %.0f", side, bytes, e.Requests, least)}
}

// readAmbient reads the DaemonSets of an ambient mesh.
func (f *AsFound) readAmbient(ctx context.Context, kube kubernetes.Interface) error {
	sets, err := kube.AppsV1().DaemonSets(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("istio: look for ztunnel in namespace %s: %w", Namespace, err)
	}
	f.daemonSets = map[string]*appsv1.DaemonSet{}
	for i := range sets.Items {
		f.daemonSets[sets.Items[i].Name] = &sets.Items[i]
	}
	return nil
}

// ambient are the components of an ambient mesh that run on nodes.
func (f AsFound) ambient() []record.Component {
	var out []record.Component
	for _, name := range []string{ztunnelName, agentName} {
		if set := f.daemonSets[name]; set != nil && len(set.Spec.Template.Spec.Containers) > 0 {
			image := set.Spec.Template.Spec.Containers[0].Image
			out = append(out, record.Component{Name: name, Version: mesh.Version(image), Source: image})
		}
	}
	return out
}

// refuseAmbient is the part of Refuse for requests that ztunnel carries.
func (f AsFound) refuseAmbient() error {
	for _, one := range [][2]string{{ztunnelName, "ztunnel"}, {agentName, "Istio's node agent"}} {
		name, what := one[0], one[1]
		set := f.daemonSets[name]
		if set == nil {
			return errs.WithHint(errs.Usage("istio: there is no ambient mesh: namespace %s has no DaemonSet %s (%s)", Namespace, name, what), notAmbient)
		}
		if s := set.Status; s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled {
			return errs.WithHint(fmt.Errorf("istio: %s is being rolled out: %d of %d nodes have the newest", what, s.UpdatedNumberScheduled, s.DesiredNumberScheduled),
				"kubectl -n %s rollout status daemonset %s", Namespace, name)
		}
		if s := set.Status; s.DesiredNumberScheduled == 0 || s.NumberReady < s.DesiredNumberScheduled {
			return errs.WithHint(fmt.Errorf("istio: %s is ready on %d of %d nodes", what, s.NumberReady, s.DesiredNumberScheduled),
				"kubectl -n %s describe daemonset %s", Namespace, name)
		}
	}
	for i := range f.istiods {
		if c := containerOf(&f.istiods[i].Spec.Template.Spec); c != nil {
			if !ambientOn(c.Env) {
				return errs.WithHint(errs.Usage("istio: istiod has no %s=true: it does not tell ztunnel of workloads", ambientEnv), notAmbient)
			}
			istiod, one := minorOf(c.Image)
			image := f.daemonSets[ztunnelName].Spec.Template.Spec.Containers[0].Image
			if ztunnel, both := minorOf(image); one && both && istiod != ztunnel {
				return errs.WithHint(errs.Usage("istio: ztunnel is of another version than istiod: %s beside %s", image, c.Image),
					"measure when the upgrade is over: the figures would be of neither version")
			}
		}
	}
	return nil
}

// ambientOn says whether an istiod's environment turns the ambient mode on.
func ambientOn(env []corev1.EnvVar) bool {
	for _, e := range env {
		if on, err := strconv.ParseBool(e.Value); e.Name == ambientEnv && err == nil && on {
			return true
		}
	}
	return false
}

var reMinor = regexp.MustCompile(`^v?([0-9]+\.[0-9]+)([.-].*)?$`)

// minorOf is the version of Istio in an image's tag, without its patch.
func minorOf(image string) (string, bool) {
	m := reMinor.FindStringSubmatch(mesh.Version(image))
	if m == nil {
		return "", false
	}
	return m[1], true
}

package istio

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Names and ports of Istio's ambient mode.
// See istio.io/docs, "Add workloads to an ambient mesh" and "Verify mutual TLS".
const (
	ztunnelName = "ztunnel"
	agentName   = "istio-cni-node"
	// agentContainer is the agent's container, regardless of the DaemonSet's name.
	agentContainer = "install-cni"
	// agentAwaited is the init container of a pod whose requests the agent redirects to its
	// sidecar, if Istio is installed that way (pilot.cni.enabled).
	agentAwaited = "istio-validation"
	// dataplaneMode is the label of a pod, or a namespace, in the mesh.
	dataplaneMode = "istio.io/dataplane-mode"
	ambientMode   = "ambient"
	statsPort     = 15020
	ambientEnv    = "PILOT_ENABLE_AMBIENT"
	// trustedEnv lists the accounts that istiod accepts as ztunnels'.
	trustedEnv = "CA_TRUSTED_NODE_ACCOUNTS"
	notInMesh  = "none"
	// ambientComponent is among the components of a run whose istiod has ambient mode on.
	ambientComponent = "istiod's ambient mode"
)

// notAmbient explains what to do without an ambient mesh. The flags of a run do not add one to
// a lab that is already up.
const notAmbient = "on this machine: meshtrial lab down, then run with --ztunnel DIR, or first meshtrial lab up --ztunnel DIR; " +
	"on a cluster: istioctl install --set profile=ambient; " +
	"or leave ambient out: --set sidecars=[none,both], for a service graph --set sidecars=both"

// upgradeHint is for a ztunnel and an istiod of different versions.
const upgradeHint = "wait until the upgrade is complete: figures measured now would belong to neither version"

// ztunnels returns the proxies on nodes.
func ztunnels() mesh.Proxies {
	return mesh.Proxies{Namespace: Namespace, Selector: "app=" + ztunnelName, Containers: []string{proxyContainer}, AdminPort: statsPort,
		Admin: func(client *http.Client) mesh.Admin { return observe.ZtunnelAdmin(client, "") },
		Stats: `^(` + strings.Join(ztunnelSeries, "|") + `)\{`}
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
	if f.daemonSets[agentName] == nil {
		if err := f.readAgent(ctx, kube); err != nil {
			return err
		}
	}
	f.dead = map[string]absent{}
	for _, name := range []string{ztunnelName, agentName} {
		if set := f.daemonSets[name]; set != nil {
			if f.dead[name], err = deadNodes(ctx, kube, set); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAgent reads the DaemonSet of the node agent if it is not in istiod's namespace.
func (f *AsFound) readAgent(ctx context.Context, kube kubernetes.Interface) error {
	set, err := kube.AppsV1().DaemonSets(agentElsewhere).Get(ctx, agentName, metav1.GetOptions{})
	switch {
	case err == nil:
		f.daemonSets[agentName] = set
	case apierrors.IsForbidden(err):
		f.agentHidden = true
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("istio: look for %s in namespace %s: %w", agentName, agentElsewhere, err)
	}
	return nil
}

// ambient returns the components of an ambient mesh that run on nodes, and a waypoint that
// differs from Istio's.
func (f AsFound) ambient() []record.Component {
	var out []record.Component
	for _, name := range []string{ztunnelName, agentName} {
		if set := f.daemonSets[name]; set != nil && len(set.Spec.Template.Spec.Containers) > 0 {
			image := set.Spec.Template.Spec.Containers[0].Image
			out = append(out, record.Component{Name: name, Version: mesh.Version(image), Source: image})
		}
	}
	if f.waypoint && f.isUpstream() {
		out = append(out, record.Component{Name: waypointName, Version: components.IstioVersion, Source: "an upstream Envoy", Lacks: []string{"Istio's discovery of peers and its metrics by peer"}})
	}
	return out
}

// ambientElsewhere explains that istiod has an ambient mesh whose ztunnels are in another
// namespace; "" if it trusts none there. See istio.io/docs, "Platform-Specific Prerequisites",
// OpenShift.
func (f AsFound) ambientElsewhere() string {
	for i := range f.istiods {
		c := containerOf(&f.istiods[i].Spec.Template.Spec)
		if c == nil || !ambientOn(c.Env) {
			continue
		}
		for _, e := range c.Env {
			if e.Name != trustedEnv {
				continue
			}
			for account := range strings.SplitSeq(e.Value, ",") {
				account = strings.TrimSpace(account)
				if namespace, _, named := strings.Cut(account, "/"); named && namespace != Namespace {
					return fmt.Sprintf("istiod's ztunnels are %s, as in Istio's OpenShift profiles, but only ztunnels in namespace %s can be measured: leave ambient out of the study", account, Namespace)
				}
			}
		}
	}
	return ""
}

// refuseAmbient is the part of Refuse for requests carried by ztunnel.
func (f AsFound) refuseAmbient() error {
	if f.daemonSets[ztunnelName] == nil {
		return errs.WithHint(errs.Usage("istio: no ambient mesh in namespace %s, the only namespace searched: it has no DaemonSet %s", Namespace, ztunnelName),
			"%s", cmp.Or(f.ambientElsewhere(), notAmbient))
	}
	if f.daemonSets[agentName] == nil {
		return f.refuseAgent()
	}
	if err := cmp.Or(f.refuseSet(ztunnelName, ztunnelName), f.refuseSet(agentName, "Istio's node agent")); err != nil {
		return err
	}
	for i := range f.istiods {
		if c := containerOf(&f.istiods[i].Spec.Template.Spec); c != nil {
			if !ambientOn(c.Env) {
				return errs.WithHint(errs.Usage("istio: istiod runs without %s=true, so it sends ztunnel no workloads", ambientEnv), notAmbient)
			}
			istiod, one := minorOf(c.Image)
			image := f.daemonSets[ztunnelName].Spec.Template.Spec.Containers[0].Image
			if ztunnel, both := minorOf(image); one && both && istiod != ztunnel {
				return errs.WithHint(errs.Usage("istio: ztunnel and istiod have different versions: %s and %s", image, c.Image), upgradeHint)
			}
		}
	}
	return nil
}

// refuseAgent returns the error for a missing node agent.
func (f AsFound) refuseAgent() error {
	where, hint := fmt.Sprintf("namespaces %s and %s have", Namespace, agentElsewhere), notAmbient
	if f.agentHidden {
		where = fmt.Sprintf("namespace %s has", Namespace)
		hint = fmt.Sprintf("it may be in namespace %s, which this user may not read: `meshtrial cluster check STUDY` names the missing right, and --manifests prints a role that grants it", agentElsewhere)
	}
	return errs.WithHint(errs.Usage("istio: an ambient mesh needs Istio's node agent, and %s no DaemonSet %s", where, agentName), "%s", hint)
}

// refuseSet returns what is wrong with a DaemonSet of the mesh, from the status that kubectl
// rollout status uses, restricted to ready nodes. A node that is not ready but has the newest
// pod blocks the others for as long as it counts as unavailable. See
// k8s.io/kubectl/pkg/polymorphichelpers, DaemonSetStatusViewer, and pkg/controller/daemon,
// rollingUpdate.
func (f AsFound) refuseSet(name, what string) error {
	set, dead := f.daemonSets[name], f.dead[name]
	s := set.Status
	status := fmt.Sprintf("kubectl -n %s rollout status daemonset %s", set.Namespace, name)
	if s.ObservedGeneration < set.Generation {
		return errs.WithHint(fmt.Errorf("istio: %s is being rolled out: Kubernetes has not yet processed the change of its DaemonSet", what), "%s", status)
	}
	nodes, newest, those := s.DesiredNumberScheduled-int32(len(dead.nodes)), s.UpdatedNumberScheduled, ""
	if len(dead.nodes) > 0 {
		newest, those = dead.newest, " that are ready"
		status += fmt.Sprintf("; a node that is not ready may block the rollout until it is ready or removed: %s", strings.Join(dead.nodes, ", "))
	}
	if newest < nodes {
		return errs.WithHint(fmt.Errorf("istio: %s is being rolled out: %d of %d nodes%s have the new version", what, newest, nodes, those), "%s", status)
	}
	if s.NumberAvailable == 0 || s.NumberAvailable < nodes {
		return errs.WithHint(fmt.Errorf("istio: %s is available on %d of %d nodes", what, s.NumberAvailable, nodes),
			"kubectl -n %s describe daemonset %s", set.Namespace, name)
	}
	return nil
}

// Fits compares the version that a running ztunnel reports with that of its DaemonSet, which
// the run's header names. A pod may run another version if its tag was moved, possibly after
// the image was pulled. If the DaemonSet names no version, as with a digest, the minor version
// must match istiod's. A ztunnel that does not report its version is assumed to be correct.
func (m *Mesh) Fits(place record.Place, running mesh.ProxyState) error {
	says := strings.TrimPrefix(running.Version, "v")
	runs, told := minor(says)
	ambient := m.found.ambient()
	i := slices.IndexFunc(ambient, func(c record.Component) bool { return c.Name == ztunnelName })
	if place != record.PlaceNode || !told || i < 0 {
		return nil
	}
	named := ambient[i]
	tag := strings.TrimPrefix(named.Version, "v")
	// A tag may contain more than the version (1.31.1-distroless), or only a minor version.
	if _, known := minor(tag); known && !isVersion(tag, says) && !strings.HasPrefix(says, tag+".") {
		return errs.WithHint(fmt.Errorf("istio: a ztunnel reports Istio %s, but the image of its DaemonSet is %s", running.Version, named.Source),
			"kubectl -n %s rollout restart daemonset %s, or set the image that is running", Namespace, ztunnelName)
	}
	if istiod, known := minor(m.found.version()); known && istiod != runs {
		return errs.WithHint(fmt.Errorf("istio: a ztunnel reports Istio %s (its image is %s), but istiod is version %s",
			running.Version, named.Source, m.found.version()),
			upgradeHint)
	}
	return nil
}

// refuseZtunnels is the part of Refuse for simulated ztunnels, which istiod serves whether or
// not there are real ones.
func (f AsFound) refuseZtunnels() error {
	for i := range f.istiods {
		if c := containerOf(&f.istiods[i].Spec.Template.Spec); c != nil && !ambientOn(c.Env) {
			return errs.WithHint(errs.Usage("istio: istiod runs without %s=true, so it rejects the study's ztunnels", ambientEnv),
				"settings: {%s: %s=true} enables ambient mode while a trial runs", controlplane.FactorIstiodEnv, ambientEnv)
		}
	}
	return nil
}

// refuseHBONE is the part of Refuse for real proxies that use HBONE. The Envoy of the lab's own
// images lacks the extension that subscribes to workloads in that case, and its bootstrap
// template omits it.
func (f AsFound) refuseHBONE() error {
	for i := range f.istiods {
		if c := containerOf(&f.istiods[i].Spec.Template.Spec); c != nil && c.Image == components.IstioHub+"/pilot:"+components.IstioVersion {
			return errs.WithHint(errs.Usage("istio: %s true does not work with real sidecars or a real gateway here: the Envoy in this lab's own images lacks the extension that discovers workloads", controlplane.FactorHBONE),
				"use only simulated proxies, or Istio's own images: meshtrial lab up --images official")
		}
	}
	return nil
}

// ambientOn reports whether an istiod's environment enables ambient mode.
func ambientOn(env []corev1.EnvVar) bool {
	for _, e := range env {
		if on, err := strconv.ParseBool(e.Value); e.Name == ambientEnv && err == nil && on {
			return true
		}
	}
	return false
}

var reMinor = regexp.MustCompile(`^v?([0-9]+\.[0-9]+)([.-].*)?$`)

// minorOf returns the Istio version in an image's tag, without its patch number.
func minorOf(image string) (string, bool) { return minor(mesh.Version(image)) }

// minor returns a version without its patch number.
func minor(version string) (string, bool) {
	m := reMinor.FindStringSubmatch(version)
	if m == nil {
		return "", false
	}
	return m[1], true
}

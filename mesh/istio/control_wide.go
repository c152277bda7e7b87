package istio

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/study"
)

// Levers that hold for every proxy of the mesh, those of others too.

// wideLever is one of the mesh configuration.
type wideLever struct {
	factor string
	// of is what a configuration says of it, does what a level means to proxies.
	of   func(config map[string]any) string
	does func(level string) string
}

var wideLevers = []wideLever{
	{controlplane.FactorExportTo, exported, func(level string) string {
		const what = "Services, VirtualServices and DestinationRules that do not say exportTo are seen "
		switch level {
		case ".":
			return what + "in their own namespaces alone"
		case "~":
			return what + "by nobody"
		}
		return what + "everywhere"
	}},
	{controlplane.FactorOutboundPolicy, configuredPolicy, func(level string) string {
		if level == "REGISTRY_ONLY" {
			return "requests to hosts that the mesh does not know fail"
		}
		return "requests to hosts that the mesh does not know are let out"
	}},
	{controlplane.FactorDiscoverySelectors, selected, func(level string) string {
		if level == mesh.LevelNone {
			return "proxies are told of all namespaces"
		}
		return "proxies lose the Services and the configuration of namespaces that it does not match"
	}},
}

// configuredPolicy is the outbound policy of a mesh configuration as it is written:
// where it says nothing of it, everything is let out.
func configuredPolicy(config map[string]any) string {
	if _, there := config["outboundTrafficPolicy"].(map[string]any); !there {
		return "ALLOW_ANY"
	}
	return activePolicy(config)
}

// wideConfig says what levers do to every proxy by the mesh configuration, of which
// text is what is there; nothing where they leave it as it is.
func wideConfig(text string, l mesh.Levers) ([]string, error) {
	wanted, err := meshConfigWith(text, l)
	if err != nil {
		return nil, err
	}
	was, err := parseMeshConfig(text)
	if err != nil {
		return nil, err
	}
	is, err := parseMeshConfig(wanted)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, w := range wideLevers {
		if level := l.Level(w.factor); l.Named(w.factor) && w.of(was) != w.of(is) {
			out = append(out, fmt.Sprintf("%s %s: %s", w.factor, level, w.does(level)))
		}
	}
	return append(out, wideMetadata(was, l)...), nil
}

// wideMetadata says which levers injectors write into pods, of a mesh configuration as
// it was: what a pod got is not taken back with the configuration.
func wideMetadata(was map[string]any, l mesh.Levers) (out []string) {
	metadata := activeMetadata(was)
	for _, f := range controlplane.Levers() {
		if f.Lever.ProxyMetadata == "" || !l.Named(f.Name) {
			continue
		}
		now, there := metadata[f.Lever.ProxyMetadata]
		if level := l.Level(f.Name); !there && level != f.Usual || there && spelled(f.Name, fmt.Sprint(now)) != level {
			out = append(out, fmt.Sprintf("%s %s: pods of anybody that get their sidecar meanwhile have it, and keep it until they are made anew", f.Name, level))
		}
	}
	return out
}

// builtinLimit is the most requests a second that istiod takes without being told how
// many; how many it takes goes by its CPUs.
const builtinLimit = 100

// Of the proxies that istiod pushes to at a time, its own number goes by its CPUs too.
// See istio.io/istio/pilot/pkg/features/tuning.go.
const (
	fewestPushes = 20
	mostPushes   = 100
)

// wideDeployment says what levers of istiod's Deployment, as it was, take from every
// proxy that is connected to it.
func wideDeployment(was *appsv1.DeploymentSpec, l mesh.Levers) (out []string) {
	container := containerOf(&was.Template.Spec)
	if container == nil {
		return nil
	}
	if level := l.Level(controlplane.FactorConnectionAge); l.Named(controlplane.FactorConnectionAge) && level != mesh.LevelNone {
		installed := time.Duration(math.MaxInt64) // without the flag
		if text, set := flagIn(container.Args, flagOf(controlplane.FactorConnectionAge)); set {
			if d, err := time.ParseDuration(text); err == nil {
				installed = d
			}
		}
		if age, err := time.ParseDuration(level); err == nil && age < installed {
			out = append(out, fmt.Sprintf("connection_age %s: istiod ends every proxy's connection at that age, and sends it all of its configuration again", level))
		}
	}
	if lowered(container, l, controlplane.FactorRequestLimit, 0, builtinLimit) {
		out = append(out, fmt.Sprintf("request_limit %s: istiod may turn proxies away that connect, and take fewer requests of them", l.Level(controlplane.FactorRequestLimit)))
	}
	if lowered(container, l, controlplane.FactorPushThrottle, fewestPushes, mostPushes) {
		out = append(out, fmt.Sprintf("push_throttle %s: istiod may push to fewer proxies at a time, so that they learn of changes later", l.Level(controlplane.FactorPushThrottle)))
	}
	return slices.Concat(out, wideDebounces(container, l), wideSize(was, container, l), wideAmbient(container, l))
}

// wideDebounces says which levers have istiod wait longer for more changes than its
// container was installed with, before it tells proxies of one.
func wideDebounces(was *corev1.Container, l mesh.Levers) (out []string) {
	for _, factor := range []string{study.FactorDebounceAfter, controlplane.FactorDebounceMax} {
		text, set := installedEnv(was, factor)
		if !set {
			f, _ := controlplane.LeverByName(factor)
			text = f.Usual
		}
		installed, _ := time.ParseDuration(text) // 0 for a variable that comes from elsewhere
		if l.Named(factor) && debounce(l, factor) > installed {
			out = append(out, fmt.Sprintf("%s %s: istiod may wait longer for more changes before it pushes them, so that proxies learn of them later", factor, l.Level(factor)))
		}
	}
	text, set := installedEnv(was, controlplane.FactorEDSDebounce)
	if on, _ := strconv.ParseBool(text); set && !on && l.Named(controlplane.FactorEDSDebounce) && l.Level(controlplane.FactorEDSDebounce) == "true" {
		out = append(out, "eds_debounce true: istiod lets changed endpoints wait for more changes too, so that proxies learn of them later")
	}
	return out
}

// installedEnv is what istiod's container was installed with for a lever of its
// environment; "" for a variable that comes from elsewhere.
func installedEnv(was *corev1.Container, factor string) (value string, set bool) {
	lever, _ := controlplane.LeverByName(factor)
	for _, e := range was.Env {
		if e.Name == lever.Lever.Env {
			value, set = e.Value, true
		}
	}
	return value, set
}

// lowered says whether a lever of istiod's environment may be below what its container
// was installed with; istiod's own number is between least and most.
func lowered(was *corev1.Container, l mesh.Levers, factor string, least, most float64) bool {
	if !l.Named(factor) {
		return false
	}
	installed, set := installedEnv(was, factor)
	level := l.Level(factor)
	same := !set && level == mesh.LevelDefault
	return !same && numberOr(level, least) < numberOr(installed, most)
}

// wideSize says which levers leave every proxy with less of istiod than was installed,
// or with another one.
func wideSize(was *appsv1.DeploymentSpec, container *corev1.Container, l mesh.Levers) (out []string) {
	if l.Named(controlplane.FactorIstiodReplicas) {
		installed := int32(1)
		if was.Replicas != nil {
			installed = *was.Replicas
		}
		if n, err := replicas(l); err == nil && n < installed {
			out = append(out, fmt.Sprintf("istiod_replicas %d: all proxies connect to these, where %d are installed", n, installed))
		}
	}
	for _, r := range resourceLevers(l) {
		limit, _, err := r.quantities()
		installed, limited := container.Resources.Limits[r.name]
		if err != nil || limit == nil || limited && limit.Cmp(installed) >= 0 {
			continue
		}
		does := "istiod has no more CPU than that for all proxies"
		if r.name == corev1.ResourceMemory {
			does = "an istiod that needs more for all proxies is killed"
		}
		now := "no limit is installed"
		if limited {
			now = installed.String() + " is installed"
		}
		out = append(out, fmt.Sprintf("%s %s: %s; %s", r.factor, r.limit, does, now))
	}
	if image := l.Level(controlplane.FactorIstiod); l.Named(controlplane.FactorIstiod) && image != container.Image {
		out = append(out, fmt.Sprintf("istiod %s: another istiod than is installed configures all proxies, and injects sidecars", image))
	}
	return out
}

// wideScaler says what it takes from every proxy that an autoscaler, as it was, is held at
// a number of replicas.
func wideScaler(was *autoscaling.HorizontalPodAutoscalerSpec, l mesh.Levers) []string {
	if n, err := replicas(l); err != nil || !l.Named(controlplane.FactorIstiodReplicas) || n >= was.MaxReplicas {
		return nil
	}
	return []string{fmt.Sprintf("istiod_replicas %s: the autoscaler, which may go up to %d, adds none, however much all proxies need", l.Level(controlplane.FactorIstiodReplicas), was.MaxReplicas)}
}

// wideAmbient says what it does to every proxy that levers switch ambient mode on or
// off, which was as istiod's container has it.
func wideAmbient(was *corev1.Container, l mesh.Levers) []string {
	vars, err := l.EnvVars()
	value, named := vars[ambientEnv]
	switch on, bad := strconv.ParseBool(value); {
	case err != nil || !named || bad != nil || on == ambientOn(was.Env):
		return nil
	case on:
		return []string{fmt.Sprintf("istiod_env %s=%s: sidecars that speak HBONE are sent the mesh's workloads too", ambientEnv, value)}
	default:
		return []string{fmt.Sprintf("istiod_env %s=%s: istiod turns ztunnels away, which learn of no change", ambientEnv, value)}
	}
}

// numberOr is the number that a level is; where that is istiod's own, it is taken to be
// so many.
func numberOr(level string, own float64) float64 {
	n, err := strconv.ParseFloat(level, 64)
	if err != nil || n <= 0 {
		return own
	}
	return n
}

// flagOf is the flag of istiod's that a lever sets.
func flagOf(factor string) string {
	f, _ := controlplane.LeverByName(factor)
	return f.Lever.Flag
}

// wideSidecar says what the mesh-wide Sidecar of levers does to every proxy; nothing
// where they ask for none.
func wideSidecar(l mesh.Levers) []string {
	if l.Level(controlplane.FactorSidecarScope) != controlplane.SidecarScopeMesh {
		return nil
	}
	text := fmt.Sprintf("sidecar_scope mesh: proxies without a Sidecar of their own namespace know no Services but those of %s", strings.Join(l.Hosts(), ", "))
	if l.Named(controlplane.FactorOutboundPolicy) {
		text += fmt.Sprintf("; outbound_policy %s holds for their requests to others", l.Level(controlplane.FactorOutboundPolicy))
	}
	return []string{text}
}

// merged are texts with more, each once.
func merged(texts, more []string) []string {
	for _, text := range more {
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Connected is how many proxies read what this istiod's levers write, by the count of
// those that they are connected to: its own, and as a Sidecar of the default revision
// is read by all, with that one every istiod's.
func (c *ControlPlane) Connected(ctx context.Context) (int, error) {
	pods, err := c.readers(ctx)
	if err != nil {
		return 0, err
	}
	all := 0.0
	for i := range pods {
		if !lab.PodReady(&pods[i]) {
			continue
		}
		client := c.dialer.Client(Namespace, pods[i].Name, monitoringPort)
		page, err := observe.Fetch(ctx, client, "http://istiod/metrics")
		client.CloseIdleConnections()
		if err != nil {
			return 0, fmt.Errorf("istio: pod %s: %w", pods[i].Name, err)
		}
		connected, _ := observe.Sum(page, "pilot_xds", nil) // not there before the first
		all += connected
	}
	return int(all), nil
}

// readers are the pods of the istiods that read a Sidecar of this one's.
func (c *ControlPlane) readers(ctx context.Context) ([]corev1.Pod, error) {
	if c.revision != defaultRevision {
		return c.pods(ctx)
	}
	all, err := c.kube.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel})
	if err != nil {
		return nil, fmt.Errorf("istio: list istiod's pods: %w", err)
	}
	return all.Items, nil
}

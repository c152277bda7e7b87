package istio

import (
	"context"
	"fmt"
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
			out = append(out, fmt.Sprintf("%s %s: pods of anybody that get their sidecar meanwhile have it, and keep it until they are recreated", f.Name, level))
		}
	}
	return out
}

// fromDeployment are levers of istiod's Deployment that may take something from every proxy
// that is connected to it: what they take, and whether a level takes more than what was
// installed; "" is what comes from elsewhere.
var fromDeployment = []struct {
	factor, takes string
	more          func(level, installed string) bool
}{
	{controlplane.FactorConnectionAge, "istiod ends every proxy's connection at that age, and sends it all of its configuration again", func(level, installed string) bool {
		age, err := time.ParseDuration(level)
		was, none := time.ParseDuration(installed)
		return err == nil && (none != nil || age < was)
	}},
	// How many requests istiod takes a second goes by its CPUs, unless it is told, up to 100.
	{controlplane.FactorRequestLimit, "istiod may turn proxies away that connect, and take fewer requests of them", fewer(0, 100)},
	// So does how many proxies it pushes to at a time: istio.io/istio/pilot/pkg/features/tuning.go.
	{controlplane.FactorPushThrottle, "istiod may push to fewer proxies at a time, so that they learn of changes later", fewer(20, 100)},
	{study.FactorDebounceAfter, later, longer},
	{controlplane.FactorDebounceMax, later, longer},
	{controlplane.FactorEDSDebounce, "istiod lets changed endpoints wait for more changes too, so that proxies learn of them later", func(level, installed string) bool {
		on, _ := strconv.ParseBool(installed)
		return level == "true" && !on
	}},
	{controlplane.FactorIstiod, "another istiod than is installed configures all proxies, and injects sidecars", func(level, installed string) bool { return level != installed }},
}

const later = "istiod may wait longer for more changes before it pushes them, so that proxies learn of them later"

func longer(level, installed string) bool {
	d, _ := time.ParseDuration(level)
	was, _ := time.ParseDuration(installed) // 0 for a variable that comes from elsewhere
	return d > was
}

// fewer: a number may be below the installed one; istiod's own is between least and most.
func fewer(least, most float64) func(level, installed string) bool {
	number := func(text string, own float64) float64 {
		if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 {
			return n
		}
		return own
	}
	return func(level, installed string) bool {
		return level != installed && number(level, least) < number(installed, most)
	}
}

// installedAs is what istiod's container was installed with for a lever: "" for a flag that is
// not given, and for a variable that comes from elsewhere.
func installedAs(was *corev1.Container, factor string) string {
	f, _ := controlplane.LeverByName(factor)
	value := f.Usual
	switch {
	case factor == controlplane.FactorIstiod:
		value = was.Image
	case f.Lever.Flag != "":
		value, _ = flagIn(was.Args, f.Lever.Flag)
	}
	for _, e := range was.Env {
		if e.Name == f.Lever.Env {
			value = e.Value
		}
	}
	return value
}

// wideDeployment says what levers of istiod's Deployment, as it was, take from every
// proxy that is connected to it.
func wideDeployment(was *appsv1.DeploymentSpec, l mesh.Levers) (out []string) {
	container := containerOf(&was.Template.Spec)
	if container == nil {
		return nil
	}
	for _, lever := range fromDeployment {
		if level := l.Level(lever.factor); l.Named(lever.factor) && lever.more(level, installedAs(container, lever.factor)) {
			out = append(out, fmt.Sprintf("%s %s: %s", lever.factor, level, lever.takes))
		}
	}
	return slices.Concat(out, wideSize(was, container, l), wideAmbient(container, l))
}

// wideSize says which levers leave every proxy with less of istiod than was installed.
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

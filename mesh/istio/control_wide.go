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

// Levers that affect every proxy of the mesh, including those of others.

// wideLever is a lever of the mesh configuration.
type wideLever struct {
	factor string
	// of returns its value in a configuration; does describes what a level means to proxies.
	of   func(config map[string]any) string
	does func(level string) string
}

var wideLevers = []wideLever{
	{controlplane.FactorExportTo, exported, func(level string) string {
		const what = "Services, VirtualServices and DestinationRules without exportTo are visible "
		switch level {
		case ".":
			return what + "only in their own namespaces"
		case "~":
			return what + "nowhere"
		}
		return what + "everywhere"
	}},
	{controlplane.FactorOutboundPolicy, configuredPolicy, func(level string) string {
		if level == "REGISTRY_ONLY" {
			return "requests to hosts unknown to the mesh fail"
		}
		return "requests to hosts unknown to the mesh are passed through"
	}},
	{controlplane.FactorDiscoverySelectors, selected, func(level string) string {
		if level == study.LevelNone {
			return "proxies receive the configuration of all namespaces"
		}
		return "proxies lose the Services and the configuration of namespaces that it does not match"
	}},
}

// configuredPolicy returns the outbound policy as written in a mesh configuration. Without one, all
// traffic is allowed out.
func configuredPolicy(config map[string]any) string {
	if _, there := config["outboundTrafficPolicy"].(map[string]any); !there {
		return "ALLOW_ANY"
	}
	return activePolicy(config)
}

// wideConfig describes what levers change for every proxy through the mesh configuration, whose
// current text is text; nothing if they leave it unchanged.
func wideConfig(text string, l mesh.Levers) ([]string, error) {
	was, is, err := withLevers(text, l)
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

// wideMetadata describes which levers injectors write into pods, given the mesh configuration
// before the change. Reverting the configuration does not revert such pods.
func wideMetadata(was map[string]any, l mesh.Levers) (out []string) {
	metadata := activeMetadata(was)
	for _, f := range controlplane.Levers() {
		if f.Lever.ProxyMetadata == "" || !l.Named(f.Name) {
			continue
		}
		now, there := metadata[f.Lever.ProxyMetadata]
		if level := l.Level(f.Name); !there && level != f.Usual || there && spelled(f.Name, fmt.Sprint(now)) != level {
			out = append(out, fmt.Sprintf("%s %s: any pod injected meanwhile gets this setting, and keeps it until it is recreated", f.Name, level))
		}
	}
	return out
}

// fromDeployment lists levers of istiod's Deployment that may degrade service for every connected
// proxy: what they take away, and whether a level takes more than the installed value; "" means
// that the value is set from another source.
var fromDeployment = []struct {
	factor, takes string
	more          func(level, installed string) bool
}{
	{controlplane.FactorConnectionAge, "istiod closes every proxy's connection at that age, then sends it its whole configuration again", func(level, installed string) bool {
		age, err := time.ParseDuration(level)
		was, none := time.ParseDuration(installed)
		return err == nil && (none != nil || age < was)
	}},
	// By default, istiod's request rate depends on its CPUs, up to 100.
	{controlplane.FactorRequestLimit, "istiod may reject proxies that connect, and accept fewer requests", fewer(0, 100)},
	// So does the number of concurrent pushes: istio.io/istio/pilot/pkg/features/tuning.go.
	{controlplane.FactorPushThrottle, "istiod may push to fewer proxies at a time, so they receive changes later", fewer(20, 100)},
	{study.FactorDebounceAfter, later, longer},
	{controlplane.FactorDebounceMax, later, longer},
	{controlplane.FactorEDSDebounce, "istiod also debounces changes of endpoints, so proxies receive them later", func(level, installed string) bool {
		on, _ := strconv.ParseBool(installed)
		return level == "true" && !on
	}},
	{controlplane.FactorIstiod, "an istiod other than the installed one configures all proxies and injects sidecars", func(level, installed string) bool { return level != installed }},
}

const later = "istiod may debounce changes for longer, so proxies receive them later"

func longer(level, installed string) bool {
	d, _ := time.ParseDuration(level)
	was, _ := time.ParseDuration(installed) // 0 if the variable is set from another source
	return d > was
}

// fewer returns whether a number may be below the installed one, given that istiod's default is
// between least and most.
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

// installedAs returns the installed value of a lever in istiod's container: "" if a flag is absent,
// or if a variable is set from another source.
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

// wideDeployment describes what levers take away from every proxy that is connected to istiod,
// given its original Deployment.
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

// wideSize describes which levers leave every proxy with less istiod capacity than was installed.
func wideSize(was *appsv1.DeploymentSpec, container *corev1.Container, l mesh.Levers) (out []string) {
	if l.Named(controlplane.FactorIstiodReplicas) {
		installed := int32(1)
		if was.Replicas != nil {
			installed = *was.Replicas
		}
		if n, err := replicas(l); err == nil && n < installed {
			out = append(out, fmt.Sprintf("istiod_replicas %d: all proxies connect to these; %d are installed", n, installed))
		}
	}
	for _, r := range resourceLevers(l) {
		limit, _, err := r.quantities()
		installed, limited := container.Resources.Limits[r.name]
		if err != nil || limit == nil || limited && limit.Cmp(installed) >= 0 {
			continue
		}
		does := "istiod serves all proxies with no more CPU than that"
		if r.name == corev1.ResourceMemory {
			does = "istiod is killed if serving all proxies takes more"
		}
		now := "no limit is installed"
		if limited {
			now = installed.String() + " is installed"
		}
		out = append(out, fmt.Sprintf("%s %s: %s; %s", r.factor, r.limit, does, now))
	}
	return out
}

// wideScaler describes the effect on every proxy of pinning an autoscaler to a number of replicas,
// given its original specification.
func wideScaler(was *autoscaling.HorizontalPodAutoscalerSpec, l mesh.Levers) []string {
	if n, err := replicas(l); err != nil || !l.Named(controlplane.FactorIstiodReplicas) || n >= was.MaxReplicas {
		return nil
	}
	return []string{fmt.Sprintf("istiod_replicas %s: the autoscaler (up to %d replicas) is held, whatever load the proxies cause", l.Level(controlplane.FactorIstiodReplicas), was.MaxReplicas)}
}

// wideAmbient describes the effect on every proxy of switching ambient mode on or off, given
// istiod's original container.
func wideAmbient(was *corev1.Container, l mesh.Levers) []string {
	vars, err := l.EnvVars()
	value, named := vars[ambientEnv]
	switch on, bad := strconv.ParseBool(value); {
	case err != nil || !named || bad != nil || on == ambientOn(was.Env):
		return nil
	case on:
		return []string{fmt.Sprintf("istiod_env %s=%s: sidecars that use HBONE also receive the mesh's workloads", ambientEnv, value)}
	default:
		return []string{fmt.Sprintf("istiod_env %s=%s: istiod rejects ztunnels, which then receive no changes", ambientEnv, value)}
	}
}

// wideSidecar describes the effect of the levers' mesh-wide Sidecar on every proxy; nothing if they
// request none.
func wideSidecar(l mesh.Levers) []string {
	if l.Level(controlplane.FactorSidecarScope) != controlplane.SidecarScopeMesh {
		return nil
	}
	text := fmt.Sprintf("sidecar_scope mesh: proxies without a Sidecar in their own namespace know only the Services of %s", strings.Join(l.Hosts(), ", "))
	if l.Named(controlplane.FactorOutboundPolicy) {
		text += fmt.Sprintf("; outbound_policy %s applies to their requests to other hosts", l.Level(controlplane.FactorOutboundPolicy))
	}
	return []string{text}
}

// merged returns texts with more, without duplicates.
func merged(texts, more []string) []string {
	for _, text := range more {
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Connected returns the number of proxies that read what this istiod's levers write, by the counts
// of the istiods that they are connected to. That is this istiod; and for the default revision
// every istiod, because all of them read its Sidecars.
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
		page, err := c.metrics(ctx, pods[i].Name)
		if err != nil {
			return 0, err
		}
		connected, _ := observe.Sum(page, "pilot_xds", nil) // absent before the first connection
		all += connected
	}
	return int(all), nil
}

// readers returns the pods of the istiods that read this istiod's Sidecars.
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

package istio

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	admission "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// AsFound is an Istio as it stands in a cluster, as far as that decides what can be
// asked of it.
type AsFound struct {
	revision Revision
	istiods  []appsv1.Deployment // of the revision
	hooks    []admission.MutatingWebhookConfiguration
	config   meshConfig
	// labels are those of istiod's own namespace, and sidecars the Sidecars of
	// others; read where levers ask for them.
	labels   map[string]string
	sidecars []unstructured.Unstructured
	// daemonSets are those of istiod's own namespace by name, and the node agent's where that
	// is in another; read where an ambient mesh is asked for. agentHidden says that nobody may
	// look there.
	daemonSets  map[string]*appsv1.DaemonSet
	agentHidden bool
	waypoint    bool // requests are to pass one
	// gatewayAPI are the kinds of the Gateway API that the cluster has, which istiod then
	// follows; noGatewayAPI says that it has none.
	gatewayAPI   []string
	noGatewayAPI bool
	// root is the mesh's root namespace, others what is there that holds for the
	// sidecars of a run's pods, and unread the kinds that may not be listed there.
	// rootSeen is what is known of the namespace itself.
	root     string
	rootSeen namespaceSeen
	others   []rooted
	unread   []string
	// dead are nodes that are not ready, where one of daemonSets has no pod that is either,
	// by its name.
	dead map[string]absent
}

// readForStudy finds the istiod of a revision or tag, or for "" the only one, and
// reads how it stands, as far as matters for what is asked. The error says what
// keeps every study from it.
func readForStudy(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, revision string, asked mesh.Asked) (AsFound, error) {
	r, err := findRevision(ctx, kube, revision)
	if err != nil {
		return AsFound{revision: r}, err
	}
	out, err := readAsFound(ctx, kube, r)
	out.waypoint = asked.Waypoint
	if err != nil {
		return out, err
	}
	if err := out.readRoot(ctx, kube, objects); err != nil {
		return out, err
	}
	if asked.Ambient {
		if err := out.readAmbient(ctx, kube); err != nil {
			return out, err
		}
	}
	if err := out.readGatewayAPI(ctx, kube, asked); err != nil {
		return out, err
	}
	return out, out.readForLevers(ctx, kube, objects.Resource(sidecarResource), asked.Levers)
}

// readAsFound reads what sidecars of a revision depend on.
func readAsFound(ctx context.Context, kube kubernetes.Interface, r Revision) (AsFound, error) {
	out := AsFound{revision: r}
	deployments, err := kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.selector()})
	if err != nil {
		return out, fmt.Errorf("istio: look for istiod in namespace %s: %w", Namespace, err)
	}
	hooks, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: injectorLabel})
	if err != nil {
		return out, fmt.Errorf("istio: look for the injection webhook: %w", err)
	}
	out.istiods, out.hooks = deployments.Items, hooks.Items
	out.config, err = readMeshConfig(ctx, kube, cmp.Or(r.ConfigMap, meshConfigMap))
	return out, err
}

// readForLevers reads what else the lever sidecar_scope depends on, where it is
// named.
func (f *AsFound) readForLevers(ctx context.Context, kube kubernetes.Interface, sidecars dynamic.NamespaceableResourceInterface, all []mesh.Levers) error {
	if !slices.ContainsFunc(all, func(l mesh.Levers) bool { return l.Named(controlplane.FactorSidecarScope) }) {
		return nil
	}
	others, err := sidecars.Namespace(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "!" + leverLabel})
	if err != nil {
		return fmt.Errorf("istio: list Sidecars: %w", err)
	}
	f.sidecars = others.Items
	f.root = f.config.rootNamespace()
	for _, l := range all { // selectors that a cell is to have count too
		if err := f.seeRoot(ctx, kube, f.selectorsOf(l)); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(all, func(l mesh.Levers) bool {
		return l.Level(controlplane.FactorSidecarScope) == controlplane.SidecarScopeMesh
	}) {
		return nil
	}
	own, err := kube.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("istio: labels of namespace %s: %w", Namespace, err)
	}
	f.labels = own.Labels
	return nil
}

// Revision is the one that was found.
func (f AsFound) Revision() Revision {
	out := f.revision
	out.metrics, out.traces = f.reported()
	out.ambient = f.ambient()
	if agent := f.daemonSets[agentName]; agent != nil {
		out.agentIn = agent.Namespace
	}
	switch {
	case len(f.gatewayAPI) > 0:
		out.gatewayAPI = "on"
	case f.noGatewayAPI:
		out.gatewayAPI = "off"
	}
	if all := f.Components(); len(all) > 0 {
		out.istiod = all[0].Version
	}
	return out
}

// Components are the binaries that would be measured.
func (f AsFound) Components() []record.Component {
	var out []record.Component
	for i := range f.istiods {
		if c := containerOf(&f.istiods[i].Spec.Template.Spec); c != nil {
			out = append(out, record.Component{Name: "istiod", Version: mesh.Version(c.Image), Source: c.Image})
			if ambientOn(c.Env) { // which its defaults for sidecars depend on too
				out = append(out, record.Component{Name: ambientComponent, Version: "on", Source: record.SourceOfMode})
			}
		}
	}
	return out
}

// Refuse says why a study cannot be run on Istio as it stands; nil if it can. It is
// asked when a run has the cluster and what dead ones left is gone, before it makes
// or changes anything else. What docs/cluster.md says of the shipped studies is its
// answers.
func (f AsFound) Refuse(asked mesh.Asked) error {
	if err := f.refuseProxies(asked.Proxies); err != nil {
		return err
	}
	if err := f.refuseLevers(asked.Levers); err != nil {
		return err
	}
	if asked.Ambient {
		if err := f.refuseAmbient(); err != nil {
			return err
		}
	}
	if asked.Ztunnels {
		if err := f.refuseZtunnels(); err != nil {
			return err
		}
	}
	if asked.HBONE {
		if err := f.refuseHBONE(); err != nil {
			return err
		}
	}
	if asked.Waypoint {
		if err := f.refuseWaypoint(); err != nil {
			return err
		}
	}
	if err := f.refuseGatewayAPI(asked); err != nil {
		return err
	}
	return f.refuseRoot(asked)
}

// refuseProxies is the part of Refuse for sidecars.
func (f AsFound) refuseProxies(proxies []mesh.Proxy) error {
	switch {
	case len(f.istiods) == 0:
		return errs.WithHint(fmt.Errorf("istio: there is no istiod in namespace %s", Namespace),
			"install Istio first; on this machine: meshtrial lab up")
	case !slices.ContainsFunc(f.istiods, func(d appsv1.Deployment) bool { return d.Status.AvailableReplicas > 0 }):
		return errs.WithHint(fmt.Errorf("istio: istiod in namespace %s has no available replica", Namespace),
			"kubectl -n %s describe pods -l %s", Namespace, f.revision.selector())
	case len(proxies) > 0 && !slices.ContainsFunc(f.hooks, f.revision.injectedBy):
		of := ""
		if !f.revision.isDefault() {
			of = " of revision " + f.revision.Name
		}
		return errs.WithHint(fmt.Errorf("istio: no sidecar injector%s takes pods with label %s=true", of, injectLabel),
			"kubectl get mutatingwebhookconfigurations -l %s -o yaml", injectorLabel)
	}
	return needProviders(f.config, proxies)
}

// injectedBy says that an injector is of the revision, and takes a run's pods by
// their labels and those of their namespace.
func (r Revision) injectedBy(hook admission.MutatingWebhookConfiguration) bool {
	if r.Deployment != "" && hook.Labels[revisionLabel] != r.Name {
		return false
	}
	namespace := labels.Set{"kubernetes.io/metadata.name": "meshtrial-run"}
	maps.Copy(namespace, givenLabels)
	maps.Copy(namespace, r.NamespaceLabels)
	return slices.ContainsFunc(hook.Webhooks, func(w admission.MutatingWebhook) bool {
		return matched(w.NamespaceSelector, namespace) && matched(w.ObjectSelector, labels.Set(r.podLabels()))
	})
}

// matched says whether a selector, none for all, matches labels.
func matched(selector *metav1.LabelSelector, of labels.Set) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(of)
}

// refuseLevers is the part of Refuse for levers.
func (f AsFound) refuseLevers(all []mesh.Levers) error {
	for _, l := range all {
		if err := f.refuseLever(l); err != nil {
			return err
		}
	}
	return nil
}

func (f AsFound) refuseLever(l mesh.Levers) error {
	if !l.Named(controlplane.FactorSidecarScope) {
		return nil
	}
	wanted, err := desiredSidecars(l)
	if err != nil {
		return err
	}
	selectors := f.selectorsOf(l)
	if err := f.refuseOthers(wanted, f.rootSeen.watchedBy(selectors)); err != nil {
		return err
	}
	if l.Level(controlplane.FactorSidecarScope) != controlplane.SidecarScopeMesh {
		return nil
	}
	if root := f.config.rootNamespace(); root != Namespace {
		return errs.WithHint(errs.Usage("istio: sidecar_scope mesh takes no effect: the mesh-wide Sidecar is in namespace %s, and the mesh's root namespace is %s", Namespace, root),
			"take sidecar_scope namespace")
	}
	if len(selectors) == 0 || slices.ContainsFunc(selectors, func(s metav1.LabelSelector) bool { return matched(&s, f.labels) }) {
		return nil
	}
	text, err := json.Marshal(selectors)
	if err != nil {
		return err
	}
	return errs.WithHint(errs.Usage("istio: sidecar_scope mesh takes no effect: the mesh-wide Sidecar is in namespace %s, which istiod does not watch; its discoverySelectors are %s", Namespace, text),
		"label the namespace so that one of them matches (kubectl label namespace %s KEY=VALUE), or take sidecar_scope namespace", Namespace)
}

// selectorsOf are the discovery selectors that are in force with levers.
func (f AsFound) selectorsOf(l mesh.Levers) []metav1.LabelSelector {
	if l.Named(controlplane.FactorDiscoverySelectors) {
		return readSelectors(discoverySelectors(l.Level(controlplane.FactorDiscoverySelectors)))
	}
	return f.config.DiscoverySelectors
}

// readSelectors reads the selectors of a mesh configuration.
func readSelectors(as any) []metav1.LabelSelector {
	text, err := json.Marshal(as)
	var out []metav1.LabelSelector
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return nil // a level, or a configuration, has been read before
	}
	return out
}

// refuseOthers fails when a Sidecar that is not ours stands where one of ours
// belongs, or holds mesh-wide: watched says whether istiod sees its root namespace.
// Those that it does not read are in the way by their name alone.
func (f AsFound) refuseOthers(wanted []*unstructured.Unstructured, watched bool) error {
	for i := range f.sidecars {
		s := &f.sidecars[i]
		_, selects, _ := unstructured.NestedMap(s.Object, "spec", "workloadSelector")
		inPlace, byName := false, false
		for _, w := range wanted {
			inPlace = inPlace || w.GetNamespace() == s.GetNamespace()
			byName = byName || sameObject(w, s)
		}
		hint := fmt.Sprintf("remove it for the study: kubectl -n %s delete sidecar %s", s.GetNamespace(), s.GetName())
		switch holds := watched && s.GetNamespace() == f.config.rootNamespace(); {
		case f.revision.reads(s) && !selects && (holds || inPlace):
			return errs.WithHint(fmt.Errorf("istio: Sidecar %s/%s would hold beside the one of the factor sidecar_scope", s.GetNamespace(), s.GetName()), "%s", hint)
		case byName:
			return errs.WithHint(fmt.Errorf("istio: Sidecar %s/%s has the name of the one of the factor sidecar_scope, which would take its place", s.GetNamespace(), s.GetName()), "%s", hint)
		}
	}
	return nil
}

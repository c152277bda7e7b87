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

// AsFound is an existing Istio in a cluster, as far as it determines what can be requested of
// it.
type AsFound struct {
	revision Revision
	istiods  []appsv1.Deployment // of the revision
	hooks    []admission.MutatingWebhookConfiguration
	config   meshConfig
	// labels are those of istiod's own namespace, and sidecars the Sidecars of others. Both
	// are read only if levers need them.
	labels   map[string]string
	sidecars []unstructured.Unstructured
	// daemonSets has the DaemonSets of istiod's own namespace by name, and the node agent's if
	// it is in another namespace. They are read only for an ambient mesh. agentHidden means
	// that this user may not read that other namespace.
	daemonSets  map[string]*appsv1.DaemonSet
	agentHidden bool
	waypoint    bool // requests are meant to pass one
	// gatewayAPI has the kinds of the Gateway API in the cluster, which istiod then watches;
	// noGatewayAPI means that it has none.
	gatewayAPI   []string
	noGatewayAPI bool
	// root is the mesh's root namespace, rootSeen what is known of it, others its objects that
	// apply to the sidecars of a run's pods, and unread the kinds that this user may not list
	// there.
	root     string
	rootSeen namespaceSeen
	others   []rooted
	unread   []string
	// dead has, by DaemonSet name, the nodes that are not ready and whose pod of that
	// DaemonSet is not ready either.
	dead map[string]absent
}

// readForStudy finds the istiod of a revision or tag, or the only one for "", and reads its
// state as far as the request requires it. The error says what prevents every study.
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
		return out, fmt.Errorf("istio: find istiod in namespace %s: %w", Namespace, err)
	}
	hooks, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: injectorLabel})
	if err != nil {
		return out, fmt.Errorf("istio: find the injection webhook: %w", err)
	}
	out.istiods, out.hooks = deployments.Items, hooks.Items
	out.config, err = readMeshConfig(ctx, kube, cmp.Or(r.ConfigMap, meshConfigMap))
	return out, err
}

// readForLevers reads what the lever sidecar_scope additionally depends on, if it is named.
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
	for _, l := range all { // selectors that a cell will set count too
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

// version returns istiod's version, from its image; "" if unknown.
func (f AsFound) version() string {
	if all := f.Components(); len(all) > 0 {
		return all[0].Version
	}
	return ""
}

// Components returns the binaries that would be measured.
func (f AsFound) Components() []record.Component {
	var out []record.Component
	for i := range f.istiods {
		if c := containerOf(&f.istiods[i].Spec.Template.Spec); c != nil {
			out = append(out, record.Component{Name: "istiod", Version: mesh.Version(c.Image), Source: c.Image})
			if ambientOn(c.Env) { // which also affects its defaults for sidecars
				out = append(out, record.Component{Name: ambientComponent, Version: "on", Source: record.SourceOfMode})
			}
		}
	}
	return out
}

// Refuse returns why a study cannot run on this Istio; nil if it can. It is called once a run
// owns the cluster and leftovers of dead runs are gone, before the run creates or changes
// anything else. docs/cluster.md documents its results for the shipped studies.
func (f AsFound) Refuse(asked mesh.Asked) error {
	for _, part := range []struct {
		applies bool
		refuse  func() error
	}{
		{true, func() error { return f.refuseProxies(asked.Proxies) }},
		{true, func() error { return f.refuseLevers(asked.Levers) }},
		{asked.Ambient, f.refuseAmbient},
		{asked.Ztunnels, f.refuseZtunnels},
		{asked.HBONE, f.refuseHBONE},
		{asked.Waypoint, f.refuseWaypoint},
		{true, func() error { return f.refuseGatewayAPI(asked) }},
		{true, func() error { return f.refuseUnknown(asked) }},
		{true, func() error { return f.refuseRoot(asked) }},
	} {
		if !part.applies {
			continue
		}
		if err := part.refuse(); err != nil {
			return err
		}
	}
	return nil
}

// refuseProxies is the part of Refuse for sidecars.
func (f AsFound) refuseProxies(proxies []mesh.Proxy) error {
	switch {
	case len(f.istiods) == 0:
		return errs.WithHint(fmt.Errorf("istio: no istiod in namespace %s", Namespace),
			"install Istio first; on this machine: meshtrial lab up")
	case !slices.ContainsFunc(f.istiods, func(d appsv1.Deployment) bool { return d.Status.AvailableReplicas > 0 }):
		return errs.WithHint(fmt.Errorf("istio: istiod in namespace %s has no available replica", Namespace),
			"kubectl -n %s describe pods -l %s", Namespace, f.revision.selector())
	case len(proxies) > 0 && !slices.ContainsFunc(f.hooks, f.revision.injectedBy):
		of := ""
		if !f.revision.isDefault() {
			of = " of revision " + f.revision.Name
		}
		return errs.WithHint(fmt.Errorf("istio: no sidecar injector%s matches pods with label %s=true", of, injectLabel),
			"kubectl get mutatingwebhookconfigurations -l %s -o yaml", injectorLabel)
	}
	return needProviders(f.config, proxies)
}

// injectedBy reports whether an injector belongs to the revision, and matches a run's pods by
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

// matched reports whether a selector, nil for all, matches labels.
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
	wanted, err := desiredSidecars(l, "")
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
		return errs.WithHint(errs.Usage("istio: sidecar_scope mesh has no effect: the mesh-wide Sidecar is in namespace %s, but the mesh's root namespace is %s", Namespace, root),
			"use sidecar_scope namespace")
	}
	if len(selectors) == 0 || slices.ContainsFunc(selectors, func(s metav1.LabelSelector) bool { return matched(&s, f.labels) }) {
		return nil
	}
	text, err := json.Marshal(selectors)
	if err != nil {
		return err
	}
	return errs.WithHint(errs.Usage("istio: sidecar_scope mesh has no effect: the mesh-wide Sidecar is in namespace %s, which istiod does not watch; its discoverySelectors are %s", Namespace, text),
		"label the namespace so that one of them matches (kubectl label namespace %s KEY=VALUE), or use sidecar_scope namespace", Namespace)
}

// selectorsOf returns the discovery selectors in force with levers.
func (f AsFound) selectorsOf(l mesh.Levers) []metav1.LabelSelector {
	if l.Named(controlplane.FactorDiscoverySelectors) {
		return readSelectors(discoverySelectors(l.Level(controlplane.FactorDiscoverySelectors)))
	}
	return f.config.DiscoverySelectors
}

// readSelectors parses the selectors of a mesh configuration.
func readSelectors(as any) []metav1.LabelSelector {
	text, err := json.Marshal(as)
	var out []metav1.LabelSelector
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return nil // a level or a configuration, already validated
	}
	return out
}

// refuseOthers returns an error if another user's Sidecar has the name of one of ours, or
// applies mesh-wide. watched reports whether istiod watches its root namespace. Sidecars that
// istiod does not read conflict only by name.
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
			return errs.WithHint(fmt.Errorf("istio: Sidecar %s/%s would apply in addition to that of factor sidecar_scope", s.GetNamespace(), s.GetName()), "%s", hint)
		case byName:
			return errs.WithHint(fmt.Errorf("istio: Sidecar %s/%s would be overwritten: factor sidecar_scope creates one of the same name", s.GetNamespace(), s.GetName()), "%s", hint)
		}
	}
	return nil
}

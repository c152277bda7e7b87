package istio

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Objects in the mesh's root namespace apply to the sidecars of all namespaces,
// including those of a run. See istio.io/docs, MeshConfig, rootNamespace.

// answer is a yes or no that may depend on something unknown in advance, such as the
// name of a run's namespace.
type answer int

const (
	no answer = iota
	maybe
	yes
)

// rootKind is a kind of object that applies mesh-wide in the root namespace.
type rootKind struct {
	resource schema.GroupVersionResource
	// touches reports whether an object applies to the sidecars of a run's pods.
	touches func(spec map[string]any, f *AsFound) answer
}

const (
	kindAuthorization = "AuthorizationPolicy"
	kindRequest       = "RequestAuthentication"
	kindTelemetry     = "Telemetry"
	kindWasm          = "WasmPlugin"
	kindExtension     = "TrafficExtension"
	kindSidecar       = "Sidecar"
	kindDestination   = "DestinationRule"
	kindEnvoyFilter   = "EnvoyFilter"
	kindProxyConfig   = "ProxyConfig"
)

// rootKinds lists the kinds that are checked. It omits PeerAuthentication because
// each sidecar of a run that receives requests has its own, which takes precedence.
var rootKinds = map[string]rootKind{
	kindAuthorization: {schema.GroupVersionResource{Group: "security.istio.io", Version: "v1", Resource: "authorizationpolicies"}, bySelector},
	kindRequest:       {schema.GroupVersionResource{Group: "security.istio.io", Version: "v1", Resource: "requestauthentications"}, bySelector},
	kindTelemetry:     {schema.GroupVersionResource{Group: "telemetry.istio.io", Version: "v1", Resource: "telemetries"}, bySelector},
	kindWasm:          {schema.GroupVersionResource{Group: "extensions.istio.io", Version: "v1alpha1", Resource: "wasmplugins"}, bySelector},
	kindExtension:     {schema.GroupVersionResource{Group: "extensions.istio.io", Version: "v1alpha1", Resource: "trafficextensions"}, bySelector},
	kindProxyConfig:   {schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1beta1", Resource: "proxyconfigs"}, bySelector},
	kindEnvoyFilter:   {schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1alpha3", Resource: "envoyfilters"}, filtered},
	kindSidecar:       {sidecarResource, unselected},
	kindDestination:   {schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "destinationrules"}, directed},
}

// rooted is an object of the root namespace that applies, or may apply, to the
// sidecars of a run's pods.
type rooted struct {
	kind   string
	object *unstructured.Unstructured
	// touches is yes or maybe.
	touches answer
}

// String formats the object for use in a search.
func (o rooted) String() string {
	return fmt.Sprintf("%s %s/%s", o.kind, o.object.GetNamespace(), o.object.GetName())
}

func (o rooted) spec() map[string]any {
	spec, _, _ := unstructured.NestedMap(o.object.Object, "spec")
	return spec
}

// readRoot reads the mesh-wide objects of others that istiod watches. Kinds that may
// not be listed are only noted, since this just provides early warnings.
func (f *AsFound) readRoot(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface) error {
	f.root = f.config.rootNamespace()
	if err := f.seeRoot(ctx, kube, f.config.DiscoverySelectors); err != nil || !f.rootSeen.watchedBy(f.config.DiscoverySelectors) {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(rootKinds)) {
		k := rootKinds[kind]
		found, err := objects.Resource(k.resource).Namespace(f.root).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsNotFound(err): // the mesh lacks this kind
		case apierrors.IsForbidden(err):
			f.unread = append(f.unread, kind)
		case err != nil:
			return fmt.Errorf("istio: list %s in namespace %s: %w", k.resource.Resource, f.root, err)
		default:
			for i := range found.Items {
				o := rooted{kind: kind, object: &found.Items[i]}
				if !f.revision.reads(o.object) || o.object.GetLabels()[leverLabel] != "" {
					continue
				}
				if o.touches = k.touches(o.spec(), f); o.touches > no {
					f.others = append(f.others, o)
				}
			}
		}
	}
	return nil
}

// reads reports whether istiod reads an object. It ignores objects with the label of
// another revision.
func (r Revision) reads(o *unstructured.Unstructured) bool {
	of := o.GetLabels()[revisionLabel]
	return of == "" || of == revisionOf(map[string]string{revisionLabel: r.Name})
}

// namespaceSeen is what is known of a namespace; zero if nothing is.
type namespaceSeen struct {
	known, there bool
	labels       labels.Set
}

// watchedBy reports whether istiod watches the namespace with these
// discoverySelectors. It assumes so if the namespace's labels are unknown.
func (n namespaceSeen) watchedBy(selectors []metav1.LabelSelector) bool {
	if len(selectors) == 0 || !n.known {
		return true
	}
	return n.there && slices.ContainsFunc(selectors, func(s metav1.LabelSelector) bool { return matched(&s, n.labels) })
}

// seeRoot reads the labels of the root namespace once, if permitted, if selectors may
// exclude it.
func (f *AsFound) seeRoot(ctx context.Context, kube kubernetes.Interface, selectors []metav1.LabelSelector) error {
	if len(selectors) == 0 || f.rootSeen.known {
		return nil
	}
	found, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + f.root})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("istio: labels of namespace %s: %w", f.root, err)
	}
	f.rootSeen.known = true
	for i := range found.Items {
		if found.Items[i].Name == f.root { // a fake cluster does not select
			f.rootSeen.there, f.rootSeen.labels = true, found.Items[i].Labels
		}
	}
	return nil
}

// bySelector is for kinds that select pods by spec.selector, or gateways and
// waypoints by spec.targetRefs.
func bySelector(spec map[string]any, f *AsFound) answer {
	if spec["targetRef"] != nil || targeted(spec) {
		return no
	}
	wanted, _, _ := unstructured.NestedStringMap(spec, "selector", "matchLabels")
	return selectsRun(wanted, f.revision)
}

// targeted reports whether an object names the gateways or waypoints it applies to.
// To istiod an empty list is the same as none.
func targeted(spec map[string]any) bool {
	to, _, _ := unstructured.NestedSlice(spec, "targetRefs")
	return len(to) > 0
}

// selectsRun reports whether labels select the pods of a run that have a sidecar.
func selectsRun(wanted map[string]string, r Revision) answer {
	of := r.podLabels()
	of["app.kubernetes.io/part-of"] = givenLabels["app.kubernetes.io/part-of"]
	of["security.istio.io/tlsMode"] = "istio" // set by the injector
	out := yes
	for key, value := range wanted {
		switch its, known := of[key]; {
		case known && its == value:
		case !known && slices.Contains(namedLabels, key):
			out = maybe
		default:
			return no
		}
	}
	return out
}

// namedLabels are the labels of a run's pods whose values depend on the study.
var namedLabels = []string{"app", "app.kubernetes.io/name", "service.istio.io/canonical-name", "service.istio.io/canonical-revision"}

// unselected is for a kind that applies mesh-wide only if it selects no workload.
func unselected(spec map[string]any, _ *AsFound) answer {
	if spec["workloadSelector"] != nil {
		return no
	}
	return yes
}

// filtered reports whether an EnvoyFilter has a patch for sidecars.
func filtered(spec map[string]any, f *AsFound) answer {
	if targeted(spec) {
		return no
	}
	patches, _, _ := unstructured.NestedSlice(spec, "configPatches")
	if !slices.ContainsFunc(patches, func(p any) bool {
		patch, _ := p.(map[string]any)
		context, _, _ := unstructured.NestedString(patch, "match", "context")
		return context != "GATEWAY" && context != "WAYPOINT"
	}) {
		return no
	}
	wanted, _, _ := unstructured.NestedStringMap(spec, "workloadSelector", "labels")
	return selectsRun(wanted, f.revision)
}

// directed reports whether a DestinationRule applies to Services of namespaces
// unknown to its author. If it has no exportTo, the mesh configuration's default
// applies, in which istiod distinguishes only "." from all namespaces.
func directed(spec map[string]any, f *AsFound) answer {
	to, _, _ := unstructured.NestedStringSlice(spec, "exportTo")
	host, _, _ := unstructured.NestedString(spec, "host")
	shown := slices.Contains(to, "*") || len(to) == 0 && !slices.Contains(f.config.DefaultDestinationRuleExportTo, ".")
	if spec["workloadSelector"] != nil || !shown || !covers(host) {
		return no
	}
	return yes
}

// covers reports whether a host, with * for any prefix, matches every Service of the
// cluster.
func covers(host string) bool {
	rest, wild := strings.CutPrefix(host, "*")
	return wild && strings.HasSuffix(".svc.cluster.local", rest)
}

package istio

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Found returns the installed values of unnamed levers: from the environment of the
// running istiods, the mesh configuration that they use, their resources and number,
// and the mesh-wide Sidecar.
func (c *ControlPlane) Found(ctx context.Context, l mesh.Levers) (record.Cell, error) {
	s, err := c.look(ctx, mesh.ControlEvidence{})
	if err != nil {
		return nil, err
	}
	for _, r := range s.replicas {
		err = errors.Join(err, r.err)
	}
	if err != nil {
		return nil, fmt.Errorf("istio: read istiod's installed settings: %w", err)
	}
	if len(s.replicas) == 0 {
		return nil, errs.WithHint(fmt.Errorf("istio: no istiod is ready to report its installed settings"),
			"kubectl -n %s describe pods -l %s", Namespace, istiodLabel)
	}
	root, _ := s.replicas[0].mesh["rootNamespace"].(string)
	c.root = cmp.Or(root, Namespace)
	wide, err := c.meshWide(ctx, c.root, readSelectors(s.replicas[0].mesh["discoverySelectors"]))
	if err != nil {
		return nil, err
	}
	return found(s, wide, l), nil
}

// Root returns the mesh's root namespace as last read by [ControlPlane.Found]; ""
// before that.
func (c *ControlPlane) Root() string { return c.root }

// meshWide returns the mesh-wide Sidecar in the root namespace that is not ours; nil
// if there is none or istiod does not read it.
func (c *ControlPlane) meshWide(ctx context.Context, root string, selectors []metav1.LabelSelector) (*unstructured.Unstructured, error) {
	f := AsFound{root: root, revision: Revision{Name: c.revision}}
	if err := f.seeRoot(ctx, c.kube, selectors); err != nil || !f.rootSeen.watchedBy(selectors) {
		return nil, err
	}
	there, err := c.sidecars.Namespace(root).List(ctx, metav1.ListOptions{LabelSelector: "!" + leverLabel})
	if err != nil {
		return nil, fmt.Errorf("istio: list Sidecars in namespace %s: %w", root, err)
	}
	for i := range there.Items {
		s := &there.Items[i]
		if _, selects, _ := unstructured.NestedMap(s.Object, "spec", "workloadSelector"); !selects && f.revision.reads(s) {
			return s, nil
		}
	}
	return nil, nil
}

// found returns the observed value of each unnamed lever.
func found(s state, wide *unstructured.Unstructured, l mesh.Levers) record.Cell {
	out := record.Cell{}
	first := s.replicas[0] // all have the same template
	var container corev1.Container
	for i := range s.pods {
		if s.pods[i].Name == first.pod {
			if its := containerOf(&s.pods[i].Spec); its != nil {
				container = *its
			}
			container.Resources = resourcesInForce(&s.pods[i])
		}
	}
	add := func(factor, value string) {
		if !l.Named(factor) && value != "" {
			out[factor] = spelled(factor, value)
		}
	}
	for _, f := range controlplane.Levers() {
		switch {
		case f.Lever.Env != "":
			value, set := first.env[f.Lever.Env]
			if !set {
				value = f.Usual
			}
			add(f.Name, value)
		case f.Lever.ProxyMetadata != "":
			value, set := activeMetadata(first.mesh)[f.Lever.ProxyMetadata]
			if !set {
				value = f.Usual
			}
			add(f.Name, fmt.Sprint(value))
		case f.Lever.Flag != "":
			value, set := flagIn(container.Args, f.Lever.Flag)
			if !set {
				value = study.LevelNone
			}
			add(f.Name, value)
		}
	}
	for _, r := range resourceLevers(l) {
		add(r.factor, amount(container.Resources.Limits, r.name))
		add(r.factor+"_request", amount(container.Resources.Requests, r.name))
	}
	add(controlplane.FactorIstiodReplicas, strconv.Itoa(len(s.replicas)))
	add(controlplane.FactorIstiod, container.Image)
	add(controlplane.FactorIstiodEnv, features(container.Env))
	add(controlplane.FactorDiscoverySelectors, selected(first.mesh))
	add(controlplane.FactorExportTo, exported(first.mesh))
	policy := activePolicy(first.mesh)
	if !l.Named(controlplane.FactorSidecarScope) {
		scope, hosts, its := scopeOf(wide)
		add(controlplane.FactorSidecarScope, scope)
		add(controlplane.FactorSidecarHosts, hosts)
		if its != "" {
			policy = its
		}
	}
	add(controlplane.FactorOutboundPolicy, policy)
	return out
}

// spelled returns a value in the factor's spelling if it is one of its levels.
func spelled(factor, value string) string {
	f, _ := controlplane.LeverByName(factor)
	if on, err := strconv.ParseBool(value); err == nil && slices.Contains(f.Levels, "true") {
		return strconv.FormatBool(on) // istiod also accepts 1, t and TRUE
	}
	if level, err := f.Canonical(value); err == nil {
		return level
	}
	return value
}

// amount returns a limit or a request, or none.
func amount(of corev1.ResourceList, name corev1.ResourceName) string {
	if q, ok := of[name]; ok {
		return q.String()
	}
	return study.LevelNone
}

// features returns the variables of istiod's environment that control its features
// and its runtime, except those that are levers. Other variables may contain private
// data.
func features(env []corev1.EnvVar) string {
	var out []string
	for _, e := range env {
		lever := slices.ContainsFunc(controlplane.Levers(), func(f study.Factor) bool { return f.Lever.Env == e.Name })
		if lever || e.ValueFrom != nil {
			continue
		}
		for _, prefix := range []string{"PILOT_", "ISTIO_", "ENABLE_", "GOGC", "GOMAXPROCS", "GOMEMLIMIT"} {
			if strings.HasPrefix(e.Name, prefix) {
				out = append(out, e.Name+"="+e.Value)
				break
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ";")
}

// selected returns the discovery selectors of an active mesh configuration: none, a
// single requirement on a label in the factor's spelling, or the selectors as JSON.
func selected(active map[string]any) string {
	selectors, _ := active["discoverySelectors"].([]any)
	if len(selectors) == 0 {
		return study.LevelNone
	}
	text, err := json.Marshal(selectors)
	if err != nil {
		return fmt.Sprint(selectors)
	}
	var read []metav1.LabelSelector
	if json.Unmarshal(text, &read) != nil || len(read) != 1 || len(read[0].MatchLabels)+len(read[0].MatchExpressions) != 1 {
		return string(text)
	}
	for key, value := range read[0].MatchLabels {
		return key + "=" + value
	}
	switch e := read[0].MatchExpressions[0]; {
	case e.Operator == metav1.LabelSelectorOpNotIn && len(e.Values) == 1:
		return e.Key + "!=" + e.Values[0]
	case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) == 1:
		return e.Key + "=" + e.Values[0]
	}
	return string(text)
}

// exported returns where an active mesh configuration exports objects by default; by
// kind if kinds differ.
func exported(active map[string]any) string {
	var each, parts []string
	for _, field := range exportFields {
		to, ok := active[field].([]any)
		if !ok {
			to = []any{"*"}
		}
		var namespaces []string
		for _, namespace := range to {
			namespaces = append(namespaces, fmt.Sprint(namespace))
		}
		text := strings.Join(namespaces, ",")
		each, parts = append(each, text), append(parts, field+" "+text)
	}
	if slices.Sort(each); len(slices.Compact(each)) == 1 {
		return each[0]
	}
	return strings.Join(parts, "; ")
}

// scopeOf returns the scope, egress hosts and outbound policy that a mesh-wide
// Sidecar sets; nil for none.
func scopeOf(wide *unstructured.Unstructured) (scope, hosts, policy string) {
	if wide == nil {
		return controlplane.SidecarScopeNone, "", ""
	}
	var all []string
	egress, _, _ := unstructured.NestedSlice(wide.Object, "spec", "egress")
	for _, listener := range egress {
		of, _ := listener.(map[string]any)
		those, _, _ := unstructured.NestedStringSlice(of, "hosts")
		for _, host := range those {
			if !slices.Contains(all, host) {
				all = append(all, host)
			}
		}
	}
	if len(all) == 0 { // istiod imports every host
		all = []string{"*/*"}
	}
	if its, there, _ := unstructured.NestedMap(wide.Object, "spec", "outboundTrafficPolicy"); there {
		mode, _ := its["mode"].(string)
		policy = outboundMode(mode)
	}
	return controlplane.SidecarScopeMesh, strings.Join(all, ","), policy
}

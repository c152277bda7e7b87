package istio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// Revision is an installed istiod and what belongs to it. The zero value is any istiod of the
// default revision.
type Revision struct {
	Name       string // as in label istio.io/rev
	Deployment string // also the name of its Service
	image      string // of its container
	ConfigMap  string // of its MeshConfig
	// NamespaceLabels are the labels by which it watches a namespace; see [LabelsFor].
	NamespaceLabels map[string]string
	// selectors are its discoverySelectors.
	selectors []metav1.LabelSelector
}

// defaultRevision is the chart's name for an installation without a revision.
const defaultRevision = "default"

// isDefault reports whether pods get its sidecars without a label.
func (r Revision) isDefault() bool { return r.Name == "" || r.Name == defaultRevision }

// podLabels returns the labels with which a pod gets its sidecar.
func (r Revision) podLabels() map[string]string {
	if r.isDefault() {
		return map[string]string{injectLabel: "true"}
	}
	return map[string]string{injectLabel: "true", revisionLabel: r.Name}
}

// selector matches both the pods and the Deployment.
func (r Revision) selector() string {
	if r.isDefault() && r.Deployment == "" {
		return istiodLabel
	}
	return istiodLabel + "," + revisionLabel + "=" + r.Name
}

// findRevision finds the istiod to use: that of a revision or a revision tag, or the only one for
// "". It returns a usage error if there is none, or several.
func findRevision(ctx context.Context, kube kubernetes.Interface, name string) (Revision, error) {
	d, err := findIstiod(ctx, kube, name)
	if err != nil {
		return Revision{}, err
	}
	out := Revision{Name: revisionOf(d.Labels), Deployment: d.Name, ConfigMap: configMapOf(d)}
	if c := containerOf(&d.Spec.Template.Spec); c != nil {
		out.image = c.Image
	}
	if d.Labels[revisionLabel] == "" { // it is the only one
		out.Deployment = ""
	}
	mesh, err := readMeshConfig(ctx, kube, out.ConfigMap)
	if err != nil {
		return out, err
	}
	out.selectors = mesh.DiscoverySelectors
	out.NamespaceLabels, err = LabelsFor(mesh.DiscoverySelectors, out.Name)
	return out, err
}

// findIstiod finds the Deployment of a revision, like [findRevision].
func findIstiod(ctx context.Context, kube kubernetes.Interface, name string) (*appsv1.Deployment, error) {
	found, err := kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel})
	if err != nil {
		return nil, fmt.Errorf("istio: find istiod in namespace %s: %w", Namespace, err)
	}
	d, err := chooseRevision(found.Items, name)
	if err != nil && name != "" && len(found.Items) > 0 {
		target, tagErr := tagged(ctx, kube, name)
		switch {
		case tagErr != nil:
			return nil, errors.Join(tagErr, err)
		case target == "":
			return nil, fmt.Errorf("%w, and there is no such revision tag", err)
		}
		d, err = chooseRevision(found.Items, target)
	}
	if err == nil && len(found.Items) > 1 && d.Labels[revisionLabel] == "" {
		return nil, errs.WithHint(errs.Usage("istio: Deployment %s/%s is one of several istiods but has no label %s, so a run could not tell its pods from the others', and would restart those too", Namespace, d.Name, revisionLabel),
			"add the label %s=%s to the Deployment and its pods (spec.template), as Istio's charts do", revisionLabel, defaultRevision)
	}
	return d, err
}

// Choose finds an istiod and makes the adapter use it.
func (m *Mesh) Choose(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, revision string,
	asked mesh.Asked) (name string, notes []string, err error) {
	found, err := readForStudy(ctx, kube, objects, revision, asked)
	if err == nil {
		err = found.Refuse(asked)
	}
	m.Revision, m.found = found.revision, found
	return m.Revision.Name, found.Beside(asked), err
}

// ConfigMap returns the name of the ConfigMap with the MeshConfig of a revision.
func (*Mesh) ConfigMap(ctx context.Context, kube kubernetes.Interface, revision string) (string, error) {
	found, err := kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel})
	if err != nil {
		return configMapNamed(revision), fmt.Errorf("istio: find istiod in namespace %s: %w", Namespace, err)
	}
	d, err := chooseRevision(found.Items, revision)
	if err != nil {
		return configMapNamed(revision), err
	}
	return configMapOf(d), nil
}

// RevisionOf returns the revision in the labels of an istiod or its pods.
func (*Mesh) RevisionOf(labels map[string]string) string { return revisionOf(labels) }

func revisionOf(labels map[string]string) string {
	return cmp.Or(labels[revisionLabel], defaultRevision)
}

// chooseRevision returns the Deployment of a revision; the only one for "".
func chooseRevision(found []appsv1.Deployment, name string) (*appsv1.Deployment, error) {
	var names []string
	for i := range found {
		rev := revisionOf(found[i].Labels)
		if rev == name || name == "" && len(found) == 1 {
			return &found[i], nil
		}
		names = append(names, rev)
	}
	slices.Sort(names)
	switch {
	case len(found) == 0:
		return nil, errs.WithHint(fmt.Errorf("istio: no istiod in namespace %s", Namespace),
			"install Istio first; on this machine: meshtrial lab up")
	case name == "":
		return nil, errs.WithHint(errs.Usage("istio: namespace %s has several istiods, of revisions %s", Namespace, strings.Join(names, ", ")),
			"choose one with --revision")
	}
	return nil, errs.WithHint(errs.Usage("istio: namespace %s has no istiod of revision %s", Namespace, name),
		"--revision must be one of %s", strings.Join(names, ", "))
}

// Revisions lists the installed istiods.
func (*Mesh) Revisions(ctx context.Context, kube kubernetes.Interface, name string) (there []string, has bool, err error) {
	found, err := kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel})
	if err != nil {
		return nil, false, fmt.Errorf("istio: find istiod in namespace %s: %w", Namespace, err)
	}
	for _, d := range found.Items {
		there = append(there, revisionOf(d.Labels))
	}
	slices.Sort(there)
	if slices.Contains(there, name) {
		return there, true, nil
	}
	target, err := tagged(ctx, kube, name)
	return there, slices.Contains(there, target), err
}

// tagged returns the revision that a tag refers to; "" if there is no such tag. See istio.io/docs,
// "Canary upgrades", stable revision labels.
func tagged(ctx context.Context, kube kubernetes.Interface, tag string) (string, error) {
	hooks, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: injectorLabel})
	if err != nil {
		return "", fmt.Errorf("istio: find revision tag %s: %w", tag, err)
	}
	for _, hook := range hooks.Items {
		if hook.Labels["istio.io/tag"] == tag {
			return hook.Labels[revisionLabel], nil
		}
	}
	return "", nil
}

package istio

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
)

// Beside returns an istiod of a revision for a lab that already has another, from the lab's
// images and the charts of its version. Shared objects already exist and stay unchanged.
// Objects with the label of an earlier run are recreated.
func (m *Mesh) Beside(ctx context.Context, config *rest.Config, revision string, second bool, label string) (mesh.Addition, error) {
	b, err := components.New(components.Options{Recorded: true}) // lab up read them
	if err != nil {
		return mesh.Addition{}, err
	}
	out := mesh.Addition{Version: m.images[factTag]}
	var objects []*unstructured.Unstructured
	if second {
		var definitions []*unstructured.Unstructured
		if objects, definitions, err = renderSecond(ctx, b, m.images, revision); err != nil {
			return mesh.Addition{}, err
		}
		out.Version = m.images[factSecondTag]
		if out.Notes, err = fitDefinitions(ctx, config, out.Version, definitions); err != nil {
			return mesh.Addition{}, err
		}
	} else {
		o := order{official: !builtHere(m.images), hub: m.images[factHub], tag: m.images[factTag],
			set: append(ManifestSettings(), "revision="+revision)}
		if m.images[factZtunnel] != "" {
			o.set = append(o.set, ambientSettings...)
		}
		i, err := o.installation(ctx, b)
		if err != nil {
			return mesh.Addition{}, err
		}
		objects = slices.Concat(i.Stages...)
	}
	applier, err := lab.NewApplier(config)
	if err != nil {
		return mesh.Addition{}, err
	}
	if out.Objects, err = applier.Missing(ctx, objects, label); err != nil {
		return mesh.Addition{}, fmt.Errorf("istio: revision %s: find what is installed: %w", revision, err)
	}
	for _, election := range ownElections {
		out.Leaves = append(out.Leaves, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": election + "-" + revision, "namespace": Namespace}}})
	}
	return out, nil
}

// ownElections are the name prefixes of each revision's own Leases
// (pilot/pkg/leaderelection, NewPerRevisionLeaderElection).
var ownElections = []string{"istio-gateway-deployment", "istio-gateway-status-leader", "istio-gateway-inferencepool"}

// awaitOthers waits until the istiods that runs created for themselves, identified by their
// label, are gone, together with the API server's webhooks for them. The cluster's garbage
// collector removes those of a killed run once its namespace is gone. A namespace whose
// owner is unknown stays until the user allows its removal. awaitOthers calls wait if there
// is something to wait for.
func awaitOthers(ctx context.Context, kube kubernetes.Interface, label string, wait func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, othersLimit, fmt.Errorf("they still exist after %v", othersLimit))
	defer cancel()
	for told := false; ; {
		deployments, err := kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel + "," + label})
		var hooks *admissionv1.MutatingWebhookConfigurationList
		if err == nil {
			hooks, err = kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: injectorLabel + "," + label})
		}
		if kubernetes.Transient(err) && wake.Pause(ctx, othersEvery) == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("istio: find istiods of earlier runs and their injectors: %w", err)
		}
		run := ""
		switch {
		case len(deployments.Items) > 0:
			run = deployments.Items[0].Labels[label]
		case len(hooks.Items) > 0:
			run = hooks.Items[0].Labels[label]
		default:
			return nil
		}
		if !told {
			told = true
			wait()
		}
		if err := wake.Pause(ctx, othersEvery); err != nil {
			return errs.WithHint(fmt.Errorf("istio: wait for the istiod of run %s to terminate: %w", run, context.Cause(ctx)),
				"if that run is over: meshtrial cluster restore --run %s", run)
		}
	}
}

// Timeout and polling interval for istiods of earlier runs, and the time one may take to
// terminate.
const (
	othersLimit = 2 * time.Minute
	othersEvery = 200 * time.Millisecond
	endTime     = 30 * time.Second
)

// sweepElections deletes the election Leases of istiods whose revisions no longer exist:
// they have no owner, and killed runs leave them behind. It is only for our own labs.
func sweepElections(ctx context.Context, kube kubernetes.Interface, leases dynamic.ResourceInterface) error {
	living, err := revisionsLeft(ctx, kube)
	if err != nil {
		return err
	}
	all, err := leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("istio: find Leases of earlier istiods: %w", err)
	}
	for _, lease := range all.Items {
		for _, election := range ownElections {
			revision, own := strings.CutPrefix(lease.GetName(), election+"-")
			if !own || living[revision] {
				continue
			}
			if err := leases.Delete(ctx, lease.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("istio: delete the Lease of an earlier istiod: %w", err)
			}
		}
	}
	return nil
}

// revisionsLeft returns the revisions that have an istiod, after the pods of the others have
// terminated, which would otherwise recreate their Leases.
func revisionsLeft(ctx context.Context, kube kubernetes.Interface) (map[string]bool, error) {
	for began := time.Now(); ; {
		deployments, err := kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel})
		var pods *corev1.PodList
		if err == nil {
			pods, err = kube.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel})
		}
		if kubernetes.Transient(err) && time.Since(began) < endTime && wake.Pause(ctx, othersEvery) == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("istio: find istiods and their pods: %w", err)
		}
		living := map[string]bool{}
		for _, d := range deployments.Items {
			living[d.Labels[revisionLabel]] = true
		}
		ending := false
		for _, p := range pods.Items {
			ending = ending || !living[p.Labels[revisionLabel]]
		}
		if !ending {
			return living, nil
		}
		if time.Since(began) >= endTime { // possibly on a dead node
			for _, p := range pods.Items {
				living[p.Labels[revisionLabel]] = true
			}
			return living, nil
		}
		if err := wake.Pause(ctx, othersEvery); err != nil {
			return nil, err
		}
	}
}

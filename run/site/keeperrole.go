package site

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site/keeper"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// roleKeeper is the role that deletes the run's namespace when the runner has died.
const roleKeeper = "meshtrial-keeper"

// owned is an object of the keeper's identity or rights. Objects outside the run's
// namespace are owned by it, so that the garbage collector deletes them with it.
type owned struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// keeperRights returns the service account of a keeper in a namespace and its
// rights: to read the cluster's Lease, and to delete that one namespace.
func keeperRights(namespace, run string, owner metav1.OwnerReference) []owned {
	const group = "rbac.authorization.k8s.io"
	rbac := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	}
	// A resumed run has a namespace with the same name, while objects owned by the
	// previous one may still exist.
	name := namespace + "-keeper-" + string(owner.UID)[:min(8, len(owner.UID))]
	entry := func(resource schema.GroupVersionResource, kind, in, name string, fields map[string]any) owned {
		o := &unstructured.Unstructured{Object: fields}
		o.SetAPIVersion(resource.GroupVersion().String())
		o.SetKind(kind)
		o.SetNamespace(in)
		o.SetName(name)
		o.SetLabels(Labels(run, roleKeeper))
		if in != namespace {
			o.SetOwnerReferences([]metav1.OwnerReference{owner})
		}
		return owned{resource, o}
	}
	rule := func(group, resource, name, verb string) map[string]any {
		return map[string]any{"rules": []any{map[string]any{
			"apiGroups": []any{group}, "resources": []any{resource}, "resourceNames": []any{name}, "verbs": []any{verb}}}}
	}
	binding := func(kind string) map[string]any {
		return map[string]any{
			"roleRef":  map[string]any{"apiGroup": group, "kind": kind, "name": name},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": roleKeeper, "namespace": namespace}},
		}
	}
	return []owned{
		entry(corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "ServiceAccount", namespace, roleKeeper, map[string]any{}),
		entry(rbac("roles"), "Role", journal.Namespace, name, rule("coordination.k8s.io", "leases", journal.LeaseName, "get")),
		entry(rbac("rolebindings"), "RoleBinding", journal.Namespace, name, binding("Role")),
		entry(rbac("clusterroles"), "ClusterRole", "", name, rule("", "namespaces", namespace, "delete")),
		entry(rbac("clusterrolebindings"), "ClusterRoleBinding", "", name, binding("ClusterRole")),
	}
}

// keeperDeployment returns the keeper's Deployment: one pod without rights on its
// node and without a sidecar.
func (s *Site) keeperDeployment(uid types.UID) *appsv1.Deployment {
	pod := RolePod(roleKeeper, s.Run, corev1.Container{
		Name: "keeper",
		Args: []string{"keeper", "--run", s.Run, "--namespace", s.Namespace, "--uid", string(uid)},
	}, s.lab.Images())
	pod.Spec.ServiceAccountName = roleKeeper
	pod.Spec.AutomountServiceAccountToken = Ptr(true)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: roleKeeper, Namespace: s.Namespace, Labels: Labels(s.Run, roleKeeper)},
		Spec: appsv1.DeploymentSpec{
			Replicas: Ptr(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: roleKeeper}},
			Template: pod,
		},
	}
}

// createKeeper creates the keeper of the run's namespace if the run holds the
// cluster's Lease. If it fails, the run continues without a keeper, and calls
// [Site.Note].
func (s *Site) createKeeper(ctx context.Context) error {
	err := s.tryKeeper(ctx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if s.Note != nil {
		s.Note(fmt.Sprintf("this run has no keeper: %v; if the runner dies, namespace %s and what belongs to it stay until the next run or `meshtrial cluster restore`", err, s.Namespace))
	}
	return nil
}

func (s *Site) tryKeeper(ctx context.Context) error {
	lease, err := keeper.Read(ctx, s.Kube)
	if err != nil {
		return err
	}
	if lease == nil || lease.Holder != s.Run {
		return nil // there is nothing to watch
	}
	client, err := dynamic.NewForConfig(s.lab.RESTConfig())
	if err != nil {
		return err
	}
	for _, o := range keeperRights(s.Namespace, s.Run, s.Owner()) {
		if err := createOnceGone(ctx, client.Resource(o.resource).Namespace(o.object.GetNamespace()), o.object); err != nil {
			return fmt.Errorf("create %s %s: %w", o.object.GetKind(), o.object.GetName(), err)
		}
	}
	d := s.keeperDeployment(s.uid)
	if _, err := s.Kube.AppsV1().Deployments(s.Namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Deployment %s: %w", d.Name, err)
	}
	return nil
}

// createOnceGone creates an object. An existing one belongs to a namespace of this run that was deleted,
// and the garbage collector is about to delete it.
func createOnceGone(ctx context.Context, at dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		_, err := at.Create(ctx, o, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) || wake.Pause(ctx, goneLook) != nil {
			return err
		}
	}
}

// Owner returns the owner reference for objects that a run creates outside its
// namespace. It is valid once the namespace exists.
func (s *Site) Owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: s.Namespace, UID: s.uid}
}

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// noteName is the ConfigMap, in a control plane's namespace, that says what
// [Installation.Add] made: [Remove] takes away that and nothing else. Whoever
// may write ConfigMaps there may write the note, too; so it is believed only of
// kinds that an installation makes (see [reference.installs]) and of objects
// that carry installedLabel, which takes the right to change each of them.
const noteName = "meshtrial-installation"

// installedLabel is on every object that [Installation.Add] made; its value is
// the mesh.
const installedLabel = "meshtrial.dev/installed"

// reference names an object.
type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

func refer(o *unstructured.Unstructured) reference {
	return reference{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}
}

func (r reference) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(r.APIVersion)
	o.SetKind(r.Kind)
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	return o
}

func (r reference) String() string { return describe(r.object()) }

// isDefinition tells whether the object defines a kind: others may use it.
func (r reference) isDefinition() bool { return r.Kind == "CustomResourceDefinition" }

// Kinds that the charts of meshes make, by group. Kinds of the meshes' own
// groups (see meshGroups) are none of these.
var (
	inCluster = map[string][]string{
		"":                             {"Namespace"},
		"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
		"admissionregistration.k8s.io": {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
		"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	}
	inNamespace = map[string][]string{
		"":                          {"ServiceAccount", "ConfigMap", "Secret", "Service", "ResourceQuota"},
		"apps":                      {"Deployment", "DaemonSet"},
		"batch":                     {"CronJob", "Job"},
		"rbac.authorization.k8s.io": {"Role", "RoleBinding"},
		"autoscaling":               {"HorizontalPodAutoscaler"},
		"policy":                    {"PodDisruptionBudget"},
		"networking.k8s.io":         {"NetworkPolicy"},
	}
	// meshGroups end the groups of the meshes' own kinds, and the names of the
	// definitions of these.
	meshGroups = []string{".istio.io", ".linkerd.io", ".gateway.networking.k8s.io", ".gateway.networking.x-k8s.io"}
)

// readsAPIServer is where a mesh's API server extension is given the right to
// know who asks it, which no other namespace can give.
const readsAPIServer = "kube-system"

// installs returns why an object is none that an installation into namespace
// makes; nil if it may be one.
func (r reference) installs(namespace string) error {
	group, _, found := strings.Cut(r.APIVersion, "/")
	if !found {
		group = ""
	}
	ofMesh := func(name string) bool {
		return slices.ContainsFunc(meshGroups, func(g string) bool { return strings.HasSuffix("."+name, g) })
	}
	switch {
	case slices.Contains(inCluster[group], r.Kind):
		switch {
		case r.Kind == "Namespace" && r.Name != namespace:
			return errors.New("that namespace is not the mesh's")
		case r.isDefinition() && !ofMesh(r.Name):
			return errors.New("the kind it defines is no mesh's")
		}
		return nil
	case slices.Contains(inNamespace[group], r.Kind) || ofMesh(group):
		if r.Namespace != namespace && (r.Kind != "RoleBinding" || r.Namespace != readsAPIServer) {
			return fmt.Errorf("it is not in the mesh's namespace %s", namespace)
		}
		return nil
	}
	return fmt.Errorf("no installation makes objects of kind %s of %s", r.Kind, r.APIVersion)
}

// labelled is the installation with installedLabel on every object.
func (i Installation) labelled() Installation {
	label := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o = o.DeepCopy()
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[installedLabel] = i.Mesh
		o.SetLabels(labels)
		return o
	}
	i.Namespace = label(i.Namespace)
	i.Stages = slices.Clone(i.Stages)
	for n, objects := range i.Stages {
		i.Stages[n] = nil
		for _, o := range objects {
			i.Stages[n] = append(i.Stages[n], label(o))
		}
	}
	return i
}

// owned reads those of the objects that are there. It fails if one of them
// does not carry installedLabel: somebody else made it.
func (a *Applier) owned(ctx context.Context, mesh string, made []reference) (map[reference]*unstructured.Unstructured, error) {
	own := map[reference]*unstructured.Unstructured{}
	var foreign []string
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, r := range made {
		group.Go(func() error {
			resource, err := a.resource(ctx, r.object())
			if meta.IsNoMatchError(err) {
				return nil
			}
			if err != nil {
				return err
			}
			there, err := resource.Get(ctx, r.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("look whose %s is: %w", r, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if there.GetLabels()[installedLabel] != mesh {
				foreign = append(foreign, r.String())
				return nil
			}
			own[r] = there
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		err := errs.Usage("%s noted as installed, but without the label %s=%s that everything installed has: nothing is deleted", some(foreign), installedLabel, mesh)
		return nil, errs.WithHint(err, "if a meshtrial that sets no labels installed it, `kubectl label KIND NAME %s=%s` says so", installedLabel, mesh)
	}
	return own, nil
}

// note is the ConfigMap that lists what is made.
func (i Installation) note(made []reference) (*unstructured.Unstructured, error) {
	list, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": noteName, "namespace": i.Namespace.GetName()},
		"data":     map[string]any{"mesh": i.Mesh, "objects": string(list)}}}, nil
}

// readNote reads what [Installation.Add] noted of a mesh.
func (a *Applier) readNote(ctx context.Context, mesh, namespace string) ([]reference, error) {
	resource, err := a.resource(ctx, reference{"v1", "ConfigMap", namespace, noteName}.object())
	if err != nil {
		return nil, err
	}
	note, err := resource.Get(ctx, noteName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data, _, err := unstructured.NestedStringMap(note.Object, "data")
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", namespace, noteName, err)
	}
	if data["mesh"] != mesh {
		return nil, fmt.Errorf("ConfigMap %s/%s is of the mesh %q", namespace, noteName, data["mesh"])
	}
	return parseNote([]byte(data["objects"]), namespace)
}

// parseNote reads the list of a note of the mesh in namespace. One that names
// what no installation makes was changed by somebody.
func parseNote(text []byte, namespace string) ([]reference, error) {
	var made []reference
	if err := json.Unmarshal(text, &made); err != nil {
		return nil, fmt.Errorf("ConfigMap %s, key objects: %w", noteName, err)
	}
	for n, r := range made {
		if r.APIVersion == "" || r.Kind == "" || r.Name == "" {
			return nil, fmt.Errorf("ConfigMap %s, key objects: object %d has no apiVersion, kind or name", noteName, n+1)
		}
		if err := r.installs(namespace); err != nil {
			err = fmt.Errorf("ConfigMap %s, key objects: object %d, %s: %w", noteName, n+1, r, err)
			return nil, errs.WithHint(err, "somebody changed the note; nothing is deleted: take the mesh away by its own tool or kubectl")
		}
	}
	return made, nil
}

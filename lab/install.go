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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/podwait"
)

// Installation is a mesh's control plane as objects to apply.
type Installation struct {
	Mesh string
	// Namespace is the one its control plane runs in.
	Namespace *unstructured.Unstructured
	// Selector is the label selector of its Deployments in that namespace.
	Selector string
	// DaemonSets are those in that namespace that belong to it too, by their names.
	DaemonSets []string
	// Stages are applied one after the other.
	Stages [][]*unstructured.Unstructured
}

// Apply applies the objects over what may be there, and waits until the
// control plane is available.
func (i Installation) Apply(ctx context.Context, config *rest.Config) error {
	applier, err := NewApplier(config)
	if err == nil {
		err = i.apply(ctx, config, applier, nil)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", i.Mesh, err)
	}
	return nil
}

// apply leaves out the objects in stay.
func (i Installation) apply(ctx context.Context, config *rest.Config, applier *Applier, stay []reference) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := applier.ApplyObjects(ctx, []*unstructured.Unstructured{i.Namespace}); err != nil {
		return err
	}
	for _, objects := range i.Stages {
		ours := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return slices.Contains(stay, refer(o)) })
		if err := applier.ApplyObjects(ctx, ours); err != nil {
			return err
		}
	}
	namespace := i.Namespace.GetName()
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: i.Selector})
	if err != nil {
		return err
	}
	if len(deployments.Items) == 0 {
		return fmt.Errorf("the manifests have no Deployment of the control plane (%s) in namespace %s", i.Selector, namespace)
	}
	for _, d := range deployments.Items {
		if err := WaitDeployment(ctx, client, namespace, d.Name); err != nil {
			return err
		}
	}
	for _, name := range i.DaemonSets {
		if err := WaitDaemonSet(ctx, client, namespace, name); err != nil {
			return err
		}
	}
	return nil
}

// Changed is what [Installation.Add] or [Remove] changed.
type Changed struct {
	Objects int // made, or deleted
	// Kept are objects left as they were, each with why.
	Kept []string
}

// Add installs into a cluster without the mesh, such as a user's own, and records
// there what it made. Existing objects of the mesh are an error, found before the
// cluster is changed, except custom resource definitions, which are used as they are.
// It makes nothing that [Remove] would not delete.
func (i Installation) Add(ctx context.Context, config *rest.Config) (Changed, error) {
	i = i.labelled()
	applier, err := NewApplier(config)
	if err != nil {
		return Changed{}, err
	}
	namespace := i.Namespace.GetName()
	all := append([]*unstructured.Unstructured{i.Namespace}, slices.Concat(i.Stages...)...)
	there, err := applier.present(ctx, all, func(*unstructured.Unstructured) bool { return true })
	if err != nil {
		return Changed{}, fmt.Errorf("%s: look for what is installed: %w", i.Mesh, err)
	}
	if slices.Contains(there, refer(i.Namespace)) {
		if _, err := applier.readNote(ctx, i.Mesh, namespace); err == nil {
			return Changed{}, errs.WithHint(errs.Usage("%s is installed in namespace %s already, by meshtrial", i.Mesh, namespace),
				"`meshtrial lab uninstall %s` takes it away", i.Mesh)
		}
	}
	var done Changed
	var foreign []string
	for _, r := range there {
		if r.isDefinition() {
			done.Kept = append(done.Kept, r.String()+": there already")
		} else {
			foreign = append(foreign, r.String())
		}
	}
	if len(foreign) > 0 {
		return Changed{}, errs.WithHint(errs.Usage("%s: the cluster has %s already", i.Mesh, some(foreign)),
			"a mesh that is installed is measured as it is: meshtrial installs over nothing")
	}
	var made []reference
	for _, o := range all {
		r := refer(o)
		if slices.Contains(there, r) {
			continue
		}
		if err := r.installs(namespace); err != nil {
			return Changed{}, errs.WithHint(errs.WithCode(fmt.Errorf("%s: %s: %w", i.Mesh, r, err), errs.CodeUsage),
				"leave it out by --set; meshtrial installs only what it would take away again")
		}
		made = append(made, r)
	}
	note, err := i.note(made)
	if err != nil {
		return Changed{}, err
	}
	if err := applier.ApplyObjects(ctx, []*unstructured.Unstructured{i.Namespace, note}); err != nil {
		return Changed{}, fmt.Errorf("%s: %w", i.Mesh, err)
	}
	done.Objects = len(made)
	if err := i.apply(ctx, config, applier, there); err != nil {
		return done, errs.WithHint(fmt.Errorf("%s: %w", i.Mesh, err), "`meshtrial lab uninstall %s` takes away what was made so far", i.Mesh)
	}
	return done, nil
}

// present returns the objects that the cluster has and that counts accepts. Objects of
// unknown kinds are absent.
func (a *Applier) present(ctx context.Context, objects []*unstructured.Unstructured, counts func(live *unstructured.Unstructured) bool) ([]reference, error) {
	var all, out []reference
	for _, o := range objects {
		all = append(all, refer(o))
	}
	live, err := a.read(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if o := live[r]; o != nil && counts(o) {
			out = append(out, r)
		}
	}
	return out, nil
}

// read reads the objects that the cluster has. Objects of unknown kinds are absent.
func (a *Applier) read(ctx context.Context, all []reference) (map[reference]*unstructured.Unstructured, error) {
	live := map[reference]*unstructured.Unstructured{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, r := range all {
		group.Go(func() error {
			resource, err := a.resource(ctx, r.object())
			if meta.IsNoMatchError(err) {
				return nil
			}
			var object *unstructured.Unstructured
			if err == nil {
				object, err = resource.Get(ctx, r.Name, metav1.GetOptions{})
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", r, err)
			}
			mu.Lock()
			defer mu.Unlock()
			live[r] = object
			return nil
		})
	}
	return live, group.Wait()
}

// Remove deletes what [Installation.Add] made of a mesh, and waits until its
// namespace is gone. Definitions that are still used by others' objects stay.
func Remove(ctx context.Context, config *rest.Config, mesh, namespace string) (Changed, error) {
	applier, err := NewApplier(config)
	if err != nil {
		return Changed{}, err
	}
	made, err := applier.readNote(ctx, mesh, namespace)
	if apierrors.IsNotFound(err) {
		return Changed{}, errs.WithHint(errs.Usage("%s was not installed by meshtrial: there is no ConfigMap %s in namespace %s", mesh, noteName, namespace),
			"only what `meshtrial lab install` made is taken away")
	}
	if err != nil {
		return Changed{}, fmt.Errorf("%s: %w", mesh, err)
	}
	own, err := applier.owned(ctx, mesh, made)
	if err != nil {
		return Changed{}, fmt.Errorf("%s: %w", mesh, err)
	}
	var done Changed
	for _, wave := range removalOrder(made) {
		var gone []*unstructured.Unstructured
		for _, r := range wave {
			object := own[r]
			if object == nil {
				continue
			}
			if r.isDefinition() {
				user, err := applier.used(ctx, r)
				if err != nil {
					return done, fmt.Errorf("%s: %w", mesh, err)
				}
				if user != "" {
					done.Kept = append(done.Kept, fmt.Sprintf("%s: in use by %s", r, user))
					continue
				}
			}
			gone = append(gone, object)
		}
		if err := applier.DeleteObjects(ctx, gone); err != nil {
			return done, fmt.Errorf("%s: %w", mesh, err)
		}
		done.Objects += len(gone)
	}
	slices.Sort(done.Kept)
	return done, applier.waitGone(ctx, reference{APIVersion: "v1", Kind: "Namespace", Name: namespace})
}

// removalOrder sorts objects into waves: webhooks first, before their servers are
// gone; then the rest; then definitions, after their objects; the namespace last,
// since it holds the note.
func removalOrder(made []reference) [][]reference {
	waves := make([][]reference, 4)
	for _, r := range made {
		wave := 1
		switch {
		case strings.HasSuffix(r.Kind, "WebhookConfiguration"):
			wave = 0
		case r.isDefinition():
			wave = 2
		case r.Kind == "Namespace":
			wave = 3
		}
		waves[wave] = append(waves[wave], r)
	}
	return waves
}

// used names an object of a definition's kind; "" if there is none, or no such
// definition.
func (a *Applier) used(ctx context.Context, definition reference) (string, error) {
	resource, err := a.resource(ctx, definition.object())
	if err != nil {
		return "", err
	}
	d, err := resource.Get(ctx, definition.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	group, _, _ := unstructured.NestedString(d.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(d.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		name, _ := version["name"].(string)
		list, err := a.client.Resource(schema.GroupVersionResource{Group: group, Version: name, Resource: plural}).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("look for %s.%s: %w", plural, group, err)
		}
		if len(list.Items) > 0 {
			return describe(&list.Items[0]), nil
		}
		return "", nil
	}
	return "", nil
}

// waitGone waits until an object is gone.
func (a *Applier) waitGone(ctx context.Context, r reference) error {
	resource, err := a.resource(ctx, r.object())
	if err != nil {
		return err
	}
	return podwait.Until(ctx, nil, "", "the end of "+r.String(), func(ctx context.Context) (podwait.Seen, error) {
		_, err := resource.Get(ctx, r.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return podwait.Seen{Done: true}, nil
		case err != nil && !temporary(err):
			return podwait.Seen{}, err
		}
		return podwait.Seen{State: "it is there"}, nil
	})
}

// some lists names, the first few of many.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more of its objects", strings.Join(names[:few], ", "), len(names)-few)
}

// noteName is the ConfigMap, in a control plane's namespace, that lists what
// [Installation.Add] made: [Remove] deletes nothing else. Others may be able to write
// it, so it is trusted only for kinds that an installation makes (see
// [reference.installs]) and for objects with installedLabel, which only those can set
// who may change the objects.
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

// isDefinition reports whether the object defines a kind, which others may use.
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

// readsAPIServer is the only namespace in which an extension API server gets the right
// to authenticate its clients.
const readsAPIServer = "kube-system"

// installs returns nil if an installation into namespace may make the object,
// otherwise why not.
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

// owned reads the objects that exist. It fails if one lacks installedLabel: somebody
// else made it.
func (a *Applier) owned(ctx context.Context, mesh string, made []reference) (map[reference]*unstructured.Unstructured, error) {
	own, err := a.read(ctx, made)
	if err != nil {
		return nil, err
	}
	var foreign []string
	for r, live := range own {
		if live.GetLabels()[installedLabel] != mesh {
			foreign = append(foreign, r.String())
		}
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

// readNote reads the note of a mesh.
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

// parseNote reads the list of a note of the mesh in namespace. A note with objects
// that no installation makes was changed by others.
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

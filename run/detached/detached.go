// Package detached runs studies inside a cluster, independently of the process that started
// them.
//
//	meshtrial run --detach  ->  [Cluster.Start]: a Job, whose pod runs this program
//	the pod                 ->  a run directory on a volume; how far it is, in a ConfigMap ([Reporter])
//	meshtrial attach        <-  [Cluster.Follow]: the pod's log, until the run has ended
//	meshtrial runs          <-  [Cluster.List], [Cluster.Fetch], [Cluster.Delete]
//
// The Job replaces a lost pod, on any node, and the new one resumes the run directory like
// `meshtrial run --resume`; the cluster's Lease tells when its predecessor is dead. The run's
// rights are exactly those that the plan needs, bound to its own service account. Everything
// that a run creates is owned by its ClusterRole, and deleted with it.
//
// Only pods read the volume: a [Server] in a pod created for that purpose serves the run
// directory as an archive ([Pack], [Unpack]).
package detached

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/rights"
)

// Label has the run's name as its value, on every object that a detached run creates.
const Label = "meshtrial.dev/detached"

// Where a run's pod finds its study and stores results.
const (
	GivenDir   = "/etc/meshtrial/study"
	resultsDir = "/results"
)

// Dir returns a run's directory, as seen by its pods.
func Dir(run string) string { return resultsDir + "/" + run }

// Spec is a run to start.
type Spec struct {
	Run   string
	Study string
	// Source is the study file as given, Resolved the study with every default and the contents of
	// all files that it names.
	Source, Resolved []byte
	// Args is the command line of the pod.
	Args   []string
	Images lab.Images
	// Namespace is the Job's namespace. If OwnNamespace, it is created, and deleted with the run.
	Namespace    string
	OwnNamespace bool
	// Results go to the PersistentVolumeClaim Claim in Namespace or, if that is empty, to Folder on
	// the nodes.
	Claim, Folder string
	// Ending is how long the run may take to revert its changes after it is told to end.
	Ending time.Duration
	// Rights are the rights that the plan needs, with their namespaces and resources.
	Rights []rights.Feature
}

// Name returns the name of a run's objects.
func (s Spec) Name() string { return objectName(s.Run) }

func objectName(run string) string { return "meshtrial-" + run }

// Subject returns the service account of the run's pod.
func (s Spec) Subject() rights.Subject {
	return rights.Subject{Kind: "ServiceAccount", Namespace: s.Namespace, Name: s.Name()}
}

// Cluster is the cluster of detached runs.
type Cluster struct {
	config  *rest.Config
	kube    kubernetes.Interface
	objects dynamic.Interface
	words   string // the flags by which commands select it, for hints
}

// Open creates clients without sending a request. words are the flags by which other commands
// select this cluster, each preceded by a space.
func Open(config *rest.Config, words string) (*Cluster, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	return &Cluster{config: config, kube: kube, objects: objects, words: words}, err
}

// API resources of the objects that a run creates.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"ConfigMap":          {Version: "v1", Resource: "configmaps"},
	"Secret":             {Version: "v1", Resource: "secrets"},
	"Pod":                {Version: "v1", Resource: "pods"},
	"Role":               {Group: rbacGroup, Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: rbacGroup, Version: "v1", Resource: "rolebindings"},
	"ClusterRole":        {Group: rbacGroup, Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: rbacGroup, Version: "v1", Resource: "clusterrolebindings"},
	"Job":                {Group: "batch", Version: "v1", Resource: "jobs"},
}

const rbacGroup = "rbac.authorization.k8s.io"

var claims = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}

// startLimit limits the creation of a run's objects, and undoLimit its reversal.
const (
	startLimit = 2 * time.Minute
	undoLimit  = 30 * time.Second
)

// Start creates the Job of a run with everything it needs. A run that cannot start leaves nothing
// behind.
func (c *Cluster) Start(ctx context.Context, s Spec) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.placed(ctx, s); err != nil {
		return err
	}
	secret, err := c.pullSecret(ctx, s)
	if err != nil {
		return err
	}
	anchor, objects, err := s.objects(secret)
	if err != nil {
		return err
	}
	made, err := c.create(ctx, anchor)
	if err != nil {
		return err
	}
	defer ending.Owe(ctx, "the objects of detached run "+s.Run, "kubectl delete clusterrole -l "+Label+"="+s.Run)()
	defer func() {
		if err != nil {
			ctx, cancel := ending.Within(ctx, undoLimit)
			defer cancel()
			undone := c.remove(ctx, made.GetName())
			if undone == nil {
				_, undone = c.unreserve(ctx)
			}
			err = errors.Join(err, undone)
		}
	}()
	if err := journal.Reserve(ctx, c.objects); err != nil {
		return err
	}
	owner := metav1.OwnerReference{APIVersion: made.GetAPIVersion(), Kind: made.GetKind(), Name: made.GetName(), UID: made.GetUID()}
	for _, o := range objects {
		o.SetOwnerReferences([]metav1.OwnerReference{owner})
		made, err := c.create(ctx, o)
		if err != nil {
			return err
		}
		if made.GetKind() == "Job" {
			return oneWriter(made)
		}
	}
	return nil
}

// oneWriter rejects a Job that may have two pods at once: API servers before 1.29 drop unknown
// fields.
func oneWriter(job *unstructured.Unstructured) error {
	if policy, _, _ := unstructured.NestedString(job.Object, "spec", "podReplacementPolicy"); policy != replaceEnded {
		return errs.WithHint(errs.Usage("this cluster does not support spec.podReplacementPolicy of Jobs, so two pods might write to the run's directory"),
			"detached runs need Kubernetes 1.29 or newer; otherwise run without --detach and keep this terminal open")
	}
	return nil
}

// unreserve releases the journal's namespace once there are no runs, and reports whether it may now
// be deleted. If it is unknown whether there are other runs, the namespace stays. A run that is
// being started has its rights in that namespace, but no Job yet.
func (c *Cluster) unreserve(ctx context.Context) (bool, error) {
	others, err := c.anchors(ctx)
	if apierrors.IsForbidden(err) || len(others) > 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return journal.Unreserve(ctx, c.objects)
}

// placed rejects a run without storage for its results.
func (c *Cluster) placed(ctx context.Context, s Spec) error {
	if s.Claim == "" {
		return nil
	}
	_, err := c.objects.Resource(claims).Namespace(s.Namespace).Get(ctx, s.Claim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errs.WithHint(errs.Usage("there is no PersistentVolumeClaim %s for results in namespace %s", s.Claim, s.Namespace),
			"kubectl get persistentvolumeclaims --all-namespaces lists them; choose one with --results pvc:NAMESPACE/NAME")
	}
	if err != nil {
		return fmt.Errorf("PersistentVolumeClaim %s/%s: %w", s.Namespace, s.Claim, err)
	}
	return nil
}

func (c *Cluster) create(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, ok := resources[o.GetKind()]
	if !ok {
		return nil, fmt.Errorf("a detached run does not create %s", o.GetKind())
	}
	made, err := c.objects.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{FieldManager: journal.FieldManager})
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "not currently held"):
		return nil, errs.WithHint(fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err),
			"whoever starts a detached run needs all rights that the run has: `meshtrial cluster check STUDY --feature detached` lists them")
	case err != nil:
		return nil, fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return made, nil
}

// own rejects a run whose Job names a ClusterRole that does not belong to the run.
func (c *Cluster) own(ctx context.Context, r Run) error {
	anchor, err := c.objects.Resource(resources["ClusterRole"]).Get(ctx, r.anchor, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it is gone, and the rest will follow
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", r.Name, err)
	}
	if anchor.GetLabels()[Label] != r.Name {
		return errs.WithHint(fmt.Errorf("the Job of run %s names ClusterRole %q, which is not the run's; nothing was deleted", r.Name, r.anchor),
			"someone else created or changed that Job: kubectl -n %s get job %s -o yaml", r.Namespace, objectName(r.Name))
	}
	return nil
}

// remove deletes a run's ClusterRole: the cluster's garbage collector deletes the rest.
func (c *Cluster) remove(ctx context.Context, anchor string) error {
	background := metav1.DeletePropagationBackground
	err := c.objects.Resource(resources["ClusterRole"]).Delete(ctx, anchor, metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ClusterRole %s: %w", anchor, err)
	}
	return nil
}

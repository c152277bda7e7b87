package mesh

import (
	"context"
	"net/http"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Revisioned is a mesh of which control planes of several revisions can serve side by
// side, so that namespaces move from one to another.
type Revisioned interface {
	Mesh
	// Plane finds the control plane of a revision or of a revision tag; "" is the one
	// that the adapter's pods begin with. An error of usage says why a run's namespace
	// cannot be moved to it.
	Plane(ctx context.Context, kube kubernetes.Interface, revision string) (Plane, error)
	// Connected asks one of a control plane's pods, by a client whose connections go to
	// its port [Plane.Port], which pods of a namespace have a sidecar connected to it.
	Connected(ctx context.Context, client *http.Client, namespace string) ([]Connected, error)
}

// Chooser is a mesh of which a run uses the control plane of one revision.
type Chooser interface {
	Revisioned
	// Choose has the adapter use the control plane of a revision or of a revision tag; "" is
	// the only one there is. An error of usage says why it cannot carry what is asked as it
	// stands; notes say what of others' will be in the figures.
	Choose(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, revision string, asked Asked) (name string, notes []string, err error)
	// Revisions are those that are installed, and whether one of them has this name or this
	// revision tag.
	Revisions(ctx context.Context, kube kubernetes.Interface, name string) (there []string, has bool, err error)
	// RevisionOf is the revision that the labels of a control plane's pods say.
	RevisionOf(labels map[string]string) string
	// ConfigMap names the one with the mesh's configuration of a revision, for "" of the only
	// one there is. With an error the name is what the mesh's charts would give.
	ConfigMap(ctx context.Context, kube kubernetes.Interface, revision string) (string, error)
	// Beside is what a control plane of a revision is made of in a lab of ours that has
	// another. What has the label of an earlier run goes, and is made anew.
	Beside(ctx context.Context, config *rest.Config, revision, label string) (Addition, error)
}

// Plane is a control plane of a revision.
type Plane struct {
	Revision string
	// Namespace and Selector are those of its pods, Deployment is its name there, and
	// Port is where its pods say on their loopback who is connected.
	Namespace, Selector, Deployment string
	Port                            int
	// Labels are those of a namespace, and PodLabels those of the pods in it, by which
	// these get their sidecars from it; "" stands for a label that must not be there.
	Labels, PodLabels map[string]string
}

// Addition is a control plane that a lab makes beside the one there.
type Addition struct {
	// Objects are what it is made of and the cluster does not have; Leaves are objects
	// that it makes by itself for itself alone.
	Objects, Leaves []*unstructured.Unstructured
}

// Connected is a pod whose sidecar is connected to a control plane.
type Connected struct {
	Pod string
	// Acknowledged says that the sidecar has taken what it was last sent of clusters and
	// listeners.
	Acknowledged bool
}

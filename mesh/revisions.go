package mesh

import (
	"context"
	"net/http"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/note"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Revisioned is a mesh in which control planes of several revisions can run side by side, and
// namespaces can move between them.
type Revisioned interface {
	Mesh
	// Plane returns the control plane of a revision or a revision tag; "" is the one that the
	// adapter's pods start with. A usage error says why a run's namespace cannot move to it.
	Plane(ctx context.Context, kube kubernetes.Interface, revision string) (Plane, error)
	// Connected queries a control plane's pod, through a client of its port [Plane.Port], for
	// the pods of a namespace with a proxy that is connected to it.
	Connected(ctx context.Context, client *http.Client, namespace string) ([]Connected, error)
}

// Chooser is a mesh in which a run uses the control plane of one revision.
type Chooser interface {
	Revisioned
	// Choose makes the adapter use the control plane of a revision or a revision tag; "" is
	// the only one. A usage error says why it cannot serve the plan in its current state;
	// notes say what other users' workloads add to the figures.
	Choose(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, revision string, asked Asked) (name string, notes []string, err error)
	// Revisions lists the installed ones; has reports whether one of them has this name or
	// revision tag.
	Revisions(ctx context.Context, kube kubernetes.Interface, name string) (there []string, has bool, err error)
	// RevisionOf returns the revision in the labels of a control plane's pods.
	RevisionOf(labels map[string]string) string
	// ConfigMap returns the name of the ConfigMap with a revision's mesh configuration, or
	// that of the only one for "". With an error the name is the default of the mesh's charts.
	ConfigMap(ctx context.Context, kube kubernetes.Interface, revision string) (string, error)
	// Beside returns the parts of a second control plane, of the given revision, in a local
	// lab; second means that it is of the lab's second version of the mesh. Objects labelled by
	// an earlier run are recreated.
	Beside(ctx context.Context, config *rest.Config, revision string, second bool, label string) (Addition, error)
}

// Plane is a control plane of a revision.
type Plane struct {
	Revision string
	Version  string // of its program, from its image; "" if unknown
	// Namespace and Selector find its pods, Deployment is its name there, and Port is where
	// its pods report on their loopback who is connected.
	Namespace, Selector, Deployment string
	Port                            int
	// Discovery is the port of its pods at which proxies without credentials get their
	// configuration.
	Discovery int
	// Labels are the namespace labels, and PodLabels the pod labels, that select this plane
	// for injection; "" stands for a label that must be absent.
	Labels, PodLabels map[string]string
	// PodAnnotations give pods sidecars of its version, if that is not the one their
	// annotations name.
	PodAnnotations map[string]string
	// OnNodes edits the DaemonSet of the mesh's proxies on nodes so that its new pods connect to
	// this plane. It is nil for the plane that they start with, since an edit can be reverted.
	// NodeVersion is the version that they then have; "" if they keep theirs.
	OnNodes     func(daemonSet *unstructured.Unstructured) error
	NodeVersion string
}

// Addition is a control plane that a lab adds to the existing one.
type Addition struct {
	// Objects are the parts that the cluster lacks; Leaves are objects that the control plane
	// creates for itself.
	Objects, Leaves []*unstructured.Unstructured
	// Version is that of its program.
	Version string
	// Notes name existing objects that it would not fully read.
	Notes []note.Note
}

// Connected is a pod with a proxy that is connected to a control plane.
type Connected struct {
	Pod string
	// Acknowledged means that the proxy has acknowledged the configuration last sent to it: the
	// clusters and listeners, or on a node everything.
	Acknowledged bool
}

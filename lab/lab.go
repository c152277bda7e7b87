// Package lab provides the place where trials run: always a Kubernetes cluster, reached only
// through its API.
//
// A [Lab] hands out what any client of Kubernetes needs (a kubeconfig and a REST configuration) and
// the names of the images that pods may use. Two packages make labs: lab/local starts a real
// one-node Kubernetes from processes on this machine, and lab/cluster takes a kubeconfig. The rest
// of the program does not know which one it has.
//
// The package also has the helpers that everything that drives a cluster shares: [Applier] applies
// and deletes YAML documents, [WaitDeployment] and [WaitPods] wait for the results (see
// internal/podwait), and [Dialer] reaches servers on a pod's loopback through the API server's
// port-forward.
package lab

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/lab/components"
)

// Kinds of lab.
const (
	KindLocal   = "local"   // ours, on this machine
	KindCluster = "cluster" // the user's, by kubeconfig
)

// RolesUser is the user and group ID of the roles' ordinary pods.
const RolesUser = 65532

// Lab is a running Kubernetes cluster.
type Lab interface {
	// Kind is KindLocal or KindCluster.
	Kind() string
	// RESTConfig returns a copy of the client configuration, which the caller may change.
	RESTConfig() *rest.Config
	// Kubeconfig is the path of a kubeconfig file for this lab.
	Kubeconfig() string
	// Images names the images that pods may use in this lab.
	Images() Images
	// Close releases the lab. It ends a local lab only if this value started it with
	// local.Options.DownOnClose, or took it over from a process that was killed. It leaves a
	// cluster as it is.
	Close() error
	// Stays reports whether the lab keeps running after Close.
	Stays() bool
}

// Images names the images that a lab's pods may use.
type Images struct {
	Meshtrial  string            `json:"meshtrial"`   // the roles: worker, load, observe
	PullPolicy corev1.PullPolicy `json:"pull_policy"` // for all of them
	// PullSecret is the pull secret for Meshtrial, as NAMESPACE/NAME; "" for none.
	PullSecret string `json:"pull_secret,omitempty"`
	// Meshes holds facts about each mesh's images, by mesh and then by names that its adapter
	// chooses. Users see [Status] of an installed mesh.
	Meshes map[string]map[string]string `json:"meshes,omitempty"`
}

// Status is the fact that describes what is installed of a mesh.
const Status = "status"

// Supply is what a mesh contributes to a local lab.
type Supply struct {
	Mesh string
	// Components names the components that Images and Install use.
	Components []string
	// NodeNetwork marks a mesh that extends the nodes' network: nodes get the folders [CNIBinDir]
	// and [CNIConfDir], and the kernel must support more.
	NodeNetwork bool
	// Images makes the images for the nodes, and returns facts about them.
	Images func(ctx context.Context, b *components.Builder) ([]components.Image, map[string]string, error)
	// Install returns the mesh ready to apply. It is called after Images, and is nil if the mesh is
	// not installed.
	Install func(ctx context.Context, b *components.Builder) (Installation, error)
}

// CNIBinDir and CNIConfDir are the folders of CNI plugins and of their configuration on each node
// of a local lab with a mesh that extends the nodes' network.
const (
	CNIBinDir  = "/run/meshtrial/cni-bin"
	CNIConfDir = "/run/meshtrial/cni-conf"
)

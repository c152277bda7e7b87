// Package lab is where trials happen: always a Kubernetes cluster, reached
// through its API alone.
//
// A [Lab] hands out what any client of Kubernetes needs (a kubeconfig and a
// REST configuration) and the names of the images that pods may use there.
// Two packages make labs: lab/local starts a real one-node Kubernetes from
// processes on this machine, lab/cluster takes a kubeconfig. Nothing else in
// the program knows which of them it has.
//
// Beside the interface stand the few helpers that everything that drives a
// cluster shares: [Applier] applies and deletes YAML documents, [WaitDeployment]
// and [WaitPods] wait for what they became (see internal/podwait), and [Dialer] reaches servers on a
// pod's loopback through the API server's port-forward.
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

// RolesUser is the id of the user, and of the group, that ordinary pods of the roles run as.
const RolesUser = 65532

// Lab is a running Kubernetes cluster.
type Lab interface {
	// Kind is KindLocal or KindCluster.
	Kind() string
	// RESTConfig returns a copy of the client configuration, which the
	// caller may change.
	RESTConfig() *rest.Config
	// Kubeconfig is the path of a kubeconfig file for this lab.
	Kubeconfig() string
	// Images names the images that pods may use in this lab.
	Images() Images
	// Close lets go of the lab. It ends a local lab only when this value
	// started it with that wish (local.Options.DownOnClose), or took it over
	// from a process that was killed; a cluster is left as it is.
	Close() error
	// Stays says whether the lab runs on after Close.
	Stays() bool
}

// Images names the images that a lab's pods may use.
type Images struct {
	Meshtrial  string            `json:"meshtrial"`   // the roles: worker, load, observe
	PullPolicy corev1.PullPolicy `json:"pull_policy"` // for all of them
	// PullSecret is the Secret by which Meshtrial is pulled, as NAMESPACE/NAME;
	// "" for none.
	PullSecret string `json:"pull_secret,omitempty"`
	// Meshes has facts about each mesh's images, by the mesh's name and then by names that its
	// adapter gives them. [Status] is what people are told of an installed one.
	Meshes map[string]map[string]string `json:"meshes,omitempty"`
}

// Status is the fact of a mesh that says what of it is installed.
const Status = "status"

// Supply is what a mesh gives a lab of ours.
type Supply struct {
	Mesh string
	// Components are the names of those that Images and Install take.
	Components []string
	// NodeNetwork says that the mesh adds to the network of nodes: these get the folders
	// [CNIBinDir] and [CNIConfDir], and the kernel must have more.
	NodeNetwork bool
	// Images makes the images that the nodes get, and the facts about them.
	Images func(ctx context.Context, b *components.Builder) ([]components.Image, map[string]string, error)
	// Install is the mesh ready to apply, once Images has returned; nil where it is not
	// installed.
	Install func(ctx context.Context, b *components.Builder) (Installation, error)
}

// CNIBinDir and CNIConfDir are the folders of CNI plugins and their configuration on each
// node of a lab of ours with a mesh that adds to them.
const (
	CNIBinDir  = "/run/meshtrial/cni-bin"
	CNIConfDir = "/run/meshtrial/cni-conf"
)

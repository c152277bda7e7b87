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
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
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
	Meshtrial  string            `json:"meshtrial"`           // the roles: worker, load, observe
	Istiod     string            `json:"istiod"`              // istio/pilot
	Proxy      string            `json:"proxy"`               // istio/proxyv2 with the default Envoy
	Proxies    map[string]string `json:"proxies"`             // istio/proxyv2 by Envoy version
	PullPolicy corev1.PullPolicy `json:"pull_policy"`         // for all of them
	Hub        string            `json:"hub,omitempty"`       // registry and folder of Istio's images, as its chart wants it
	IstioTag   string            `json:"istio_tag,omitempty"` // tag of Istio's images
	// PullSecret is the Secret by which Meshtrial is pulled, as NAMESPACE/NAME;
	// "" for none.
	PullSecret string `json:"pull_secret,omitempty"`

	Ztunnel string `json:"ztunnel,omitempty"` // of an ambient mesh; "" in a lab without one

	// Linkerd's, all "" in a lab without it.
	LinkerdController string `json:"linkerd_controller,omitempty"` // its control plane
	LinkerdProxy      string `json:"linkerd_proxy,omitempty"`      // its sidecar
	LinkerdVersion    string `json:"linkerd_version,omitempty"`
}

// ProxyFor returns the sidecar image with the named Envoy version; the empty
// version is the default image. It is a usage error to ask for a version that
// the lab does not have.
func (i Images) ProxyFor(envoy string) (string, error) {
	if envoy == "" {
		return i.Proxy, nil
	}
	if ref, ok := i.Proxies[envoy]; ok {
		return ref, nil
	}
	have := slices.Sorted(maps.Keys(i.Proxies))
	return "", errs.WithHint(errs.Usage("this lab has no sidecar image with Envoy %s", envoy),
		"it has %v; a local lab gets more with `meshtrial lab up --envoy VERSION`", have)
}

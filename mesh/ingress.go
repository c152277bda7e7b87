package mesh

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/record"
)

// Ingress is an implementation of the Gateway API: a control plane that runs a proxy for each
// Gateway of its class.
type Ingress interface {
	// CheckIngress verifies that it is installed and usable, finds its class, and returns the
	// binaries that would be measured. Call it before the other methods.
	CheckIngress(ctx context.Context, cluster *rest.Config) ([]record.Component, error)
	// Gateway completes a Gateway so that one pod with [PlainProxy]'s number of threads serves it,
	// at an address inside the cluster. It returns further objects that the Gateway needs, which
	// are created before it in its namespace.
	Gateway(gateway *unstructured.Unstructured) []*unstructured.Unstructured
	// GatewayProxies returns the proxies of a Gateway. An empty namespace means any.
	GatewayProxies(namespace, gateway string) Proxies
	// ControlPlane returns the namespace and the label selector of the control plane's pods.
	ControlPlane() (namespace, selector string)
}

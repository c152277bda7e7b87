package envoygateway

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Names and ports defined by Envoy Gateway.
const (
	selector       = "control-plane=envoy-gateway"
	adminPort      = 19000
	proxyContainer = "envoy"
	owningGateway  = "gateway.envoyproxy.io/owning-gateway-name"
	owningSpace    = "gateway.envoyproxy.io/owning-gateway-namespace"
	group          = "gateway.envoyproxy.io"
)

// notThere explains what to do on a cluster without Envoy Gateway.
const notThere = "on this machine: meshtrial lab down, then run with --envoy-gateway DIR (a folder with its program and chart, or a release), " +
	"or first meshtrial lab up --envoy-gateway DIR; a study of several ingresses can leave it out: --set ingress=istio"

// Gateways is the adapter.
type Gateways struct {
	class string
}

var _ mesh.Ingress = (*Gateways)(nil)

var classes = schema.GroupVersionResource{Group: gatewayGroup, Version: "v1", Resource: "gatewayclasses"}

// CheckIngress implements [mesh.Ingress].
func (g *Gateways) CheckIngress(ctx context.Context, cluster *rest.Config) ([]record.Component, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("envoy gateway: %w", err)
	}
	objects, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("envoy gateway: %w", err)
	}
	found, err := client.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("envoy gateway: find the control plane in namespace %s: %w", Namespace, err)
	}
	if len(found.Items) == 0 {
		return nil, errs.WithHint(errs.Usage("envoy gateway: no control plane in namespace %s", Namespace), notThere)
	}
	var components []record.Component
	for _, d := range found.Items {
		if d.Status.AvailableReplicas == 0 {
			return nil, errs.WithHint(fmt.Errorf("envoy gateway: %s in namespace %s has no available replica", d.Name, Namespace),
				"kubectl -n %s describe pods -l %s", Namespace, selector)
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			components = append(components, record.Component{Name: program, Version: mesh.Version(c.Image), Source: c.Image})
		}
	}
	g.class, err = findClass(ctx, objects)
	return components, err
}

// findClass returns the name of a GatewayClass of Envoy Gateway's.
func findClass(ctx context.Context, objects dynamic.Interface) (string, error) {
	all, err := objects.Resource(classes).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("envoy gateway: find its GatewayClass: %w", err)
	}
	if all != nil {
		for _, c := range all.Items {
			if name, _, _ := unstructured.NestedString(c.Object, "spec", "controllerName"); name == controllerName {
				return c.GetName(), nil
			}
		}
	}
	return "", errs.WithHint(errs.Usage("envoy gateway: the cluster has no GatewayClass of controller %s", controllerName),
		"create one: its quickstart has an example")
}

// Gateway implements [mesh.Ingress].
func (g *Gateways) Gateway(gateway *unstructured.Unstructured) []*unstructured.Unstructured {
	threads := int64(mesh.PlainThreads)
	proxy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1alpha1", "kind": "EnvoyProxy",
		"metadata": map[string]any{"name": gateway.GetName(), "namespace": gateway.GetNamespace()},
		"spec": map[string]any{
			"mergeType":   "StrategicMerge", // the installation's own settings, such as images, stay
			"concurrency": threads,
			"shutdown":    map[string]any{"drainTimeout": "1s", "minDrainDuration": "0s"}, // it ends with its trial
			"provider": map[string]any{"type": "Kubernetes", "kubernetes": map[string]any{
				"envoyService": map[string]any{"type": "ClusterIP"},
				// Its default request, 512 MiB, is a large part of a lab's node.
				"envoyDeployment": map[string]any{"container": map[string]any{"resources": map[string]any{
					"requests": map[string]any{"cpu": "10m", "memory": "40Mi"}}}},
			}}},
	}}
	_ = unstructured.SetNestedField(gateway.Object, g.class, "spec", "gatewayClassName")
	_ = unstructured.SetNestedMap(gateway.Object, map[string]any{"group": group, "kind": "EnvoyProxy", "name": proxy.GetName()}, "spec", "infrastructure", "parametersRef")
	return []*unstructured.Unstructured{proxy}
}

// GatewayProxies implements [mesh.Ingress].
func (*Gateways) GatewayProxies(namespace, gateway string) mesh.Proxies {
	return mesh.Proxies{Namespace: Namespace, Selector: owningSpace + "=" + namespace + "," + owningGateway + "=" + gateway,
		Containers: []string{proxyContainer}, AdminPort: adminPort,
		Admin: func(client *http.Client) mesh.Admin { return observe.EnvoyAdmin{HTTPClient: client} },
		Hint:  fmt.Sprintf("kubectl -n %s logs -l %s --tail=100 shows what Envoy Gateway did with the Gateway", Namespace, selector)}
}

// ControlPlane implements [mesh.Ingress].
func (*Gateways) ControlPlane() (namespace, pods string) { return Namespace, selector }

package istio

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

var _ mesh.Ingress = (*Mesh)(nil)

// ingressClass is the class of Gateways for which istiod runs a gateway of its own.
const ingressClass = "istio"

// CheckIngress implements [mesh.Ingress].
func (m *Mesh) CheckIngress(ctx context.Context, cluster *rest.Config) ([]record.Component, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("istio: %w", err)
	}
	components, err := m.check(ctx, client, nil)
	if err != nil {
		return nil, err
	}
	var found AsFound
	if err := found.readGatewayAPI(ctx, client, mesh.Asked{GatewayAPI: true}); err != nil {
		return nil, err
	}
	if found.noGatewayAPI {
		return nil, errs.WithHint(errs.Usage("the cluster has no Gateways of %s", gatewayAPI),
			"on this machine: meshtrial lab down, then run again (the run starts a lab that has them), or first meshtrial lab up --gateway-api; elsewhere install the Gateway API's standard channel")
	}
	return components, nil
}

// Gateway implements [mesh.Ingress]. See istio.io/docs, "Kubernetes Gateway API", automated
// deployment.
func (m *Mesh) Gateway(gateway *unstructured.Unstructured) []*unstructured.Unstructured {
	gateway.SetAnnotations(map[string]string{
		"networking.istio.io/service-type": "ClusterIP",
		"proxy.istio.io/config":            fmt.Sprintf(`{"concurrency": %d}`, mesh.PlainThreads), // its pods inherit it
	})
	_ = unstructured.SetNestedField(gateway.Object, ingressClass, "spec", "gatewayClassName")
	if !m.Revision.isDefault() {
		labels := gateway.GetLabels()
		labels[revisionLabel] = m.Revision.Name
		gateway.SetLabels(labels)
	}
	return nil
}

// GatewayProxies implements [mesh.Ingress].
func (m *Mesh) GatewayProxies(namespace, gateway string) mesh.Proxies {
	return mesh.Proxies{Namespace: namespace, Selector: gatewayNameLabel + "=" + gateway, Containers: []string{proxyContainer}, AdminPort: adminPort,
		Admin: func(client *http.Client) mesh.Admin { return observe.EnvoyAdmin{HTTPClient: client} },
		Hint:  fmt.Sprintf("kubectl -n %s logs -l %s --tail=100 shows how istiod handled the Gateway", Namespace, m.Revision.selector())}
}

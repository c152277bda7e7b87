package app

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// inventoryLists are the lists of the API server that say what is in the mesh.
// The mesh's configuration comes first: it says which namespace is the root.
func inventoryLists(istiod, configMap string) [][2]string {
	istio, routes, apps := "/apis/networking.istio.io/v1/", "/apis/gateway.networking.k8s.io/", "/apis/apps/v1/"
	return [][2]string{
		{"ConfigMap", "/api/v1/namespaces/" + istiod + "/configmaps/" + configMap},
		{"Namespace", "/api/v1/namespaces"}, {"Service", "/api/v1/services"}, {"Pod", "/api/v1/pods"},
		{"ServiceEntry", istio + "serviceentries"}, {"VirtualService", istio + "virtualservices"},
		{"DestinationRule", istio + "destinationrules"}, {"Sidecar", istio + "sidecars"},
		{"EnvoyFilter", "/apis/networking.istio.io/v1alpha3/envoyfilters"},
		{"WasmPlugin", "/apis/extensions.istio.io/v1alpha1/wasmplugins"}, {"TrafficExtension", "/apis/extensions.istio.io/v1alpha1/trafficextensions"},
		{"RequestAuthentication", "/apis/security.istio.io/v1/requestauthentications"},
		{"HTTPRoute", routes + "v1/httproutes"}, {"GRPCRoute", routes + "v1/grpcroutes"}, {"TCPRoute", routes + "v1alpha2/tcproutes"}, {"TLSRoute", routes + "v1alpha2/tlsroutes"}, {"TCPRoute", routes + "v1/tcproutes"}, {"TLSRoute", routes + "v1/tlsroutes"},
		{"Deployment", apps + "deployments"}, {"StatefulSet", apps + "statefulsets"}, {"DaemonSet", apps + "daemonsets"}, {"CronJob", "/apis/batch/v1/cronjobs"}, {"WorkloadEntry", istio + "workloadentries"},
	}
}

// meshConfigMap is the ConfigMap of a revision, or for "" of the only istiod there is.
// Where nobody may say which there are, it is the one that Istio's charts would make.
func meshConfigMap(ctx context.Context, kube kubernetes.Interface, revision string) (name, note string, err error) {
	name, err = Istio().ConfigMap(ctx, kube, revision)
	if err == nil || errs.Code(err) == errs.CodeUsage || ctx.Err() != nil {
		return name, "", err
	}
	return name, fmt.Sprintf("The istiods could not be listed (%v): using ConfigMap %s as the mesh's.", err, name), nil
}

// ReadInventory lists what is in a running mesh. What may not be listed is a
// note: less is known then, and so less narrowed.
func ReadInventory(ctx context.Context, kube kubernetes.Interface, revision string, inv *generate.Inventory) (notes []string, err error) {
	configMap, note, err := meshConfigMap(ctx, kube, revision)
	if err != nil {
		return nil, err
	}
	if note != "" {
		notes = append(notes, note)
	}
	istiod, _ := Istio().ControlPlane()
	for _, list := range inventoryLists(istiod, configMap) {
		kind, path := list[0], list[1]
		body, err := kube.CoreV1().RESTClient().Get().AbsPath(path).Stream(ctx)
		switch {
		case apierrors.IsNotFound(err) && kind == "ConfigMap":
			notes = append(notes, fmt.Sprintf("%s does not exist: assuming Istio's defaults for the root namespace, the outbound policy and the hosts of extension providers. --revision names another.", path))
			continue
		case apierrors.IsNotFound(err):
			err = inv.Read(strings.NewReader(`{"items":[]}`), kind) // there is no such kind of object, or no such map
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("%s could not be read (%v), so fewer workloads are narrowed.", path, err))
			continue
		case err == nil:
			err = inv.Read(body, kind)
			body.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return notes, nil
}

package istio

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
)

// Settings that request a gateway from the injector; see the Deployment in Istio's
// chart gateway (manifests/charts/gateway/templates/deployment.yaml).
const (
	templatesAnnotation = "inject.istio.io/templates"
	gatewayTemplate     = "gateway"
	// injectedImage is replaced by the injector's own.
	injectedImage = "auto"
)

var _ mesh.Gated = (*Mesh)(nil)

// DecorateGateway implements [mesh.Gated].
func (m *Mesh) DecorateGateway(w mesh.Workload, pod *corev1.PodTemplateSpec) error {
	if err := m.Decorate(w, pod); err != nil {
		return err
	}
	pod.Annotations[templatesAnnotation] = gatewayTemplate
	pod.Spec.Containers = []corev1.Container{{
		Name: proxyContainer, Image: injectedImage,
		ImagePullPolicy: corev1.PullIfNotPresent, // an image without a tag would be pulled every time
		// As sidecars have it. The template of gateways has a readiness probe alone, every 15 s, so
		// that a pod would become ready up to 15 s late.
		StartupProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz/ready", Port: intstr.FromInt32(15021)}},
			PeriodSeconds: 1, TimeoutSeconds: 3, FailureThreshold: 600,
		},
	}}
	return nil
}

// readGatewayAPI reads which kinds of the Gateway API the cluster has. If the plan
// does not need them, a permission error is ignored. Other errors do not count as
// absence.
func (f *AsFound) readGatewayAPI(ctx context.Context, kube kubernetes.Interface, asked mesh.Asked) error {
	served, err := kube.Discovery().ServerResourcesForGroupVersion(ctx, gatewayAPI)
	switch {
	case apierrors.IsNotFound(err):
		f.noGatewayAPI = true
		return nil
	case apierrors.IsForbidden(err) && !asked.GatewayAPI && !asked.Waypoint:
		return nil
	case err != nil:
		return fmt.Errorf("istio: find the Gateway API (%s): %w", gatewayAPI, err)
	}
	for _, r := range served.APIResources {
		f.gatewayAPI = append(f.gatewayAPI, r.Kind)
	}
	return nil
}

// refuseGatewayAPI is the part of Refuse for routes of the Gateway API.
func (f AsFound) refuseGatewayAPI(asked mesh.Asked) error {
	if !asked.GatewayAPI || slices.Contains(f.gatewayAPI, "HTTPRoute") {
		return nil
	}
	return errs.WithHint(errs.Usage("the cluster has no HTTPRoutes of %s", gatewayAPI),
		"on this machine: meshtrial lab down, then run again (the run starts a lab that has them), or first meshtrial lab up --gateway-api; elsewhere install the Gateway API's standard channel, or set change to %s", controlplane.ChangeGatewayRoute)
}

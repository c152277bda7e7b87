package runner

import (
	"context"
	"fmt"
	"strconv"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createRoles makes the observers and the pod of the simulated sidecars.
func (c *controlPlane) createRoles(ctx context.Context) error {
	if err := c.createObservers(ctx); err != nil {
		return err
	}
	d := xdsDeployment(c.namespace, c.o.Lab.Images(), c.run)
	if _, err := c.kube.AppsV1().Deployments(c.namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Deployment %s: %w", d.Name, err)
	}
	return nil
}

// xdsDeployment is the pod in which all simulated sidecars live.
func xdsDeployment(namespace string, images lab.Images, run string) *appsv1.Deployment {
	pod := rolePod(roleXDS, run, corev1.Container{
		Name: roleXDS,
		Args: []string{"xds", "--control", "127.0.0.1:" + strconv.Itoa(xdsControlPort)},
	}, images)
	// A push has istiod use every CPU that it can have. With the small share of
	// other roles the simulated sidecars would get a fiftieth of what istiod
	// gets on the same node, and acknowledge tens of milliseconds late.
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("300m")
	pod.Labels["sidecar.istio.io/inject"] = "false"
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: roleXDS, Namespace: namespace, Labels: labels(run, roleXDS)},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr(int32(1)),
			// Two fleets at once would be counted as one.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: roleXDS}},
			Template: pod,
		},
	}
}

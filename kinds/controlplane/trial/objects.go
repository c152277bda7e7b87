package trial

import (
	"context"
	"fmt"
	"strconv"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createRoles creates the observers and the pods of the simulated sidecars.
func (c *controlPlane) createRoles(ctx context.Context) error {
	if err := c.CreateObservers(ctx); err != nil {
		return err
	}
	d := xdsDeployment(c.Namespace, c.o.Lab.Images(), c.Run, c.wanted)
	if _, err := c.Kube.AppsV1().Deployments(c.Namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Deployment %s: %w", d.Name, err)
	}
	c.KeepAlive(site.RoleXDS, site.XDSControlPort, "")
	return nil
}

// xdsDeployment returns the Deployment of the simulator pods, spread over the nodes if possible.
func xdsDeployment(namespace string, images lab.Images, run string, pods int) *appsv1.Deployment {
	pod := site.RolePod(site.RoleXDS, run, corev1.Container{
		Name: site.RoleXDS,
		Args: []string{"xds", "--control", "127.0.0.1:" + strconv.Itoa(site.XDSControlPort), "--alone", site.Alone.String()},
	}, images)
	// During a push istiod uses every CPU that it can get. With the small share of other roles the
	// simulated sidecars would get a fiftieth of istiod's on the same node, and acknowledge tens of
	// milliseconds late.
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("300m")
	pod.Labels["sidecar.istio.io/inject"] = "false"
	this := &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: site.RoleXDS}}
	if pods > 1 {
		lab.LeaveDeadNodes(&pod)
		site.Spread(&pod, this)
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: site.RoleXDS, Namespace: namespace, Labels: site.Labels(run, site.RoleXDS)},
		Spec: appsv1.DeploymentSpec{
			Replicas: site.Ptr(int32(pods)),
			// Two fleets at once would be counted as one.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: this,
			Template: pod,
		},
	}
}

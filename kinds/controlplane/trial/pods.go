package trial

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// madeWith is the pod template annotation with what pods depend on. If it changes, they are
// recreated.
const madeWith = "meshtrial.dev/made-with"

// readAtStart returns the levels that proxies read at startup: the injector writes the mesh's
// values into the pod once.
func readAtStart(levers mesh.Levers) string {
	return fmt.Sprintf("delta=%s dns=%s hbone=%s", levers.Level(controlplane.FactorDelta), levers.Level(controlplane.FactorDNSCapture), levers.Level(controlplane.FactorHBONE))
}

// deployed describes a Deployment of real pods. They are in a namespace of the population, and are
// deleted with it.
type deployed struct {
	mesh.Workload
	pod      corev1.PodTemplateSpec
	count    int
	made     string                                             // see [madeWith]
	app      string                                             // level of population.AppLabel; "" for none
	decorate func(mesh.Workload, *corev1.PodTemplateSpec) error // by the mesh
	strategy appsv1.DeploymentStrategyType                      // "" for rolling updates
}

// putDeployment creates or updates a Deployment.
func (c *controlPlane) putDeployment(ctx context.Context, d deployed) error {
	if err := d.decorate(d.Workload, &d.pod); err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&d.pod.ObjectMeta, madeWith, d.made)
	if d.app != "" {
		d.pod.Labels[population.AppLabel] = d.app
	}
	object := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, Labels: site.Labels(c.Run, d.Name)},
		Spec: appsv1.DeploymentSpec{
			Replicas: site.Ptr(int32(d.count)),
			Strategy: appsv1.DeploymentStrategy{Type: d.strategy},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: d.Name}},
			Template: d.pod,
		},
	}
	deployments := c.Kube.AppsV1().Deployments(d.Namespace)
	_, err := deployments.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = deployments.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("make the pods of %s: %w", d.Name, err)
	}
	return nil
}

// workerPort is the port of a Service of workers.
func workerPort() corev1.ServicePort {
	return corev1.ServicePort{Name: "http", Port: population.ServicePort, TargetPort: intstr.FromInt(protocol.Of(protocol.HTTP1).Plain.Port)}
}

// putService creates the Service of a Deployment's pods unless it exists.
func (c *controlPlane) putService(ctx context.Context, namespace, name string, port corev1.ServicePort) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: site.Labels(c.Run, name)},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{mesh.AppLabel: name}, Ports: []corev1.ServicePort{port}},
	}
	service.Labels[population.AppLabel] = name // EndpointSlices inherit it
	if _, err := c.Kube.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Service %s: %w", name, err)
	}
	return nil
}

// awaitDeployment waits until a Deployment's pods are ready, and older ones are gone.
func (c *controlPlane) awaitDeployment(ctx context.Context, namespace, name string) error {
	if err := lab.WaitDeployment(ctx, c.Kube, namespace, name); err != nil {
		return errs.WithHint(err, "kubectl -n %s describe pods -l %s=%s", namespace, mesh.AppLabel, name)
	}
	return nil
}

// findPods waits for a Deployment, and connects to the proxies of its pods.
func (c *controlPlane) findPods(ctx context.Context, namespace, name string, count int) ([]site.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	if err := c.awaitDeployment(ctx, namespace, name); err != nil {
		return nil, err
	}
	selector := mesh.AppLabel + "=" + name
	if err := lab.WaitPods(ctx, c.Kube, namespace, selector, count); err != nil {
		return nil, err
	}
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", name, err)
	}
	var out []site.Pod
	for i := range pods.Items {
		if pod := &pods.Items[i]; lab.PodReady(pod) {
			found, err := c.NewPod(ctx, pod, c.o.Mesh)
			if err != nil {
				return nil, err
			}
			out = append(out, found)
		}
	}
	if len(out) < count {
		return nil, fmt.Errorf("%d of %d pods of %s/%s are ready any more", len(out), count, namespace, name)
	}
	return out, nil
}

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

package trial

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
)

// madeWith is the pod template annotation with the pod's specification. If it changes, the pod is
// recreated.
const madeWith = "meshtrial.dev/made-with"

// readAtStart returns the levels that proxies read at startup: the injector writes the mesh's
// values into the pod once.
func readAtStart(levers mesh.Levers) string {
	return fmt.Sprintf("delta=%s dns=%s hbone=%s", levers.Level(controlplane.FactorDelta), levers.Level(controlplane.FactorDNSCapture), levers.Level(controlplane.FactorHBONE))
}

// ensureReal scales the real pods to a cell's number, recreates them if a lever that a sidecar
// reads at startup has changed or fresh differs, and finds them. They are in the namespace of
// Sidecars of scope namespace.
func (c *controlPlane) ensureReal(ctx context.Context, l controlplane.Levels, levers mesh.Levers, fresh string) error {
	c.reals = nil
	namespace := levers.Namespaces[0]
	if l.RealPods == 0 && c.wish == "" {
		return nil
	}
	deployments := c.Kube.AppsV1().Deployments(namespace)
	if l.RealPods == 0 {
		c.wish = ""
		err := deployments.Delete(ctx, site.RoleReal, metav1.DeleteOptions{PropagationPolicy: site.Ptr(metav1.DeletePropagationForeground)})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the real pods: %w", err)
		}
		return nil
	}
	serves := c.realServes(l, levers)
	wish := readAtStart(levers) + " serves=" + serves
	if fresh != "" {
		wish += " for=" + fresh
	}
	c.say("%d real pods with sidecars", l.RealPods)
	if err := c.GivePullSecret(ctx, namespace); err != nil {
		return err
	}
	d, err := c.realDeployment(namespace, l.RealPods, wish, serves)
	if err != nil {
		return err
	}
	if _, err = deployments.Create(ctx, d, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = deployments.Update(ctx, d, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create the real pods: %w", err)
	}
	c.wish = wish
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	if err := lab.WaitDeployment(limited, c.Kube, namespace, site.RoleReal); err != nil {
		return errs.WithHint(err, "kubectl -n %s describe pods -l %s=%s", namespace, mesh.AppLabel, site.RoleReal)
	}
	return c.findReal(limited, namespace, l.RealPods)
}

// realServes returns the Service of the population that the real pods are endpoints of; "" for
// none.
func (c *controlPlane) realServes(l controlplane.Levels, levers mesh.Levers) string {
	service := levers.Workload[population.AppLabel]
	if !controlplane.Of(c.study).RealEndpoints || l.Services == 0 || service == population.ClientsDeployment {
		return ""
	}
	return service
}

// findReal connects to the real pods' sidecars.
func (c *controlPlane) findReal(ctx context.Context, namespace string, count int) error {
	selector := mesh.AppLabel + "=" + site.RoleReal
	if err := lab.WaitPods(ctx, c.Kube, namespace, selector, count); err != nil {
		return err
	}
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list the real pods: %w", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; lab.PodReady(pod) {
			ref, err := c.NewPod(ctx, pod, c.o.Mesh)
			if err != nil {
				return err
			}
			c.reals = append(c.reals, ref)
		}
	}
	return nil
}

// realDeployment returns a Deployment of workers with sidecars, selected by a Service of the
// population unless serves is "".
func (c *controlPlane) realDeployment(namespace string, count int, wish, serves string) (*appsv1.Deployment, error) {
	w := mesh.Workload{Name: site.RoleReal, Namespace: namespace, ControlPort: site.WorkerControlPort, Proxy: mesh.PlainProxy()}
	pod := site.WorkerPod(w, c.o.Lab.Images(), c.Run)
	if err := c.o.Mesh.Decorate(w, &pod); err != nil {
		return nil, err
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[madeWith] = wish
	if serves != "" {
		pod.Labels[population.AppLabel] = serves
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: site.RoleReal, Namespace: namespace, Labels: site.Labels(c.Run, site.RoleReal)},
		Spec: appsv1.DeploymentSpec{
			Replicas: site.Ptr(int32(count)),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: site.RoleReal}},
			Template: pod,
		},
	}, nil
}

// tokenLeast is the minimum lifetime of a token from an API server (ValidateTokenRequest in
// Kubernetes' pkg/apis/authentication/validation).
const tokenLeast = 10 * time.Minute

// tokenLife returns the time for which a trial's fleet needs its tokens: sidecars whose stream ends
// present theirs again, until the trial's last wait is over.
func (t *controlTrial) tokenLife() time.Duration {
	connect := connectWaits * (connectLeast + time.Duration(len(t.ids))*connectEach)
	window := controlplane.Of(t.c.study).Idle + 2*controlplane.ChangeTime(t.c.study, t.job.Cell) + controlplane.Of(t.c.study).Settle // drivers may be late
	return connect + window + tokenLeast
}

// tokens requests a service account's token for each identity, as the kubelet does for an
// agent.
func (c *controlPlane) tokens(ctx context.Context, ids []population.Identity, audience string, life time.Duration) (map[string]string, error) {
	out := map[string]string{}
	for _, id := range ids {
		key := id.Namespace + "/" + id.ServiceAccount
		if out[key] != "" {
			continue
		}
		request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: site.Ptr(int64(life.Seconds()))}}
		answer, err := c.Kube.CoreV1().ServiceAccounts(id.Namespace).CreateToken(ctx, id.ServiceAccount, request, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("token of service account %s: %w", key, err)
		}
		out[key] = answer.Status.Token
	}
	return out, nil
}

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
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
)

// ensureReal scales the real pods to a cell's number, recreates them if a lever that a sidecar
// reads at startup has changed or fresh differs, and finds them. They are workers in the namespace
// of Sidecars of scope namespace.
func (c *controlPlane) ensureReal(ctx context.Context, l controlplane.Levels, levers mesh.Levers, fresh string) (err error) {
	c.reals = nil
	namespace := levers.Namespaces[0]
	if l.RealPods == 0 {
		if c.deployedReal {
			err = c.Kube.AppsV1().Deployments(namespace).Delete(ctx, site.RoleReal, metav1.DeleteOptions{PropagationPolicy: site.Ptr(metav1.DeletePropagationForeground)})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the real pods: %w", err)
		}
		c.deployedReal = false
		return nil
	}
	c.say("%d real pods with sidecars", l.RealPods)
	c.deployedReal = true
	serves := c.realServes(l, levers)
	made := readAtStart(levers) + " serves=" + serves
	if fresh != "" {
		made += " for=" + fresh
	}
	w := mesh.Workload{Name: site.RoleReal, Namespace: namespace, ControlPort: site.WorkerControlPort, Proxy: mesh.PlainProxy()}
	pod := site.WorkerPod(w, c.o.Lab.Images(), c.Run)
	if err := c.GivePullSecret(ctx, namespace); err != nil {
		return err
	}
	if err := c.putDeployment(ctx, deployed{w, pod, l.RealPods, made, serves, c.o.Mesh.Decorate, appsv1.RecreateDeploymentStrategyType}); err != nil {
		return err
	}
	c.reals, err = c.findPods(ctx, namespace, site.RoleReal, l.RealPods)
	return err
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

package site

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokenKey is the Secret key, and the file name, of the token that callers of a
// node role must send.
const tokenKey = "token"

// tokenFile returns the path of that file in a node role's pod.
func tokenFile(role string) string { return "/etc/meshtrial/" + role + "/" + tokenKey }

// nodeRole is a role that acts on its node's processes: as root, with these
// capabilities, in the node's PID namespace, without a sidecar.
type nodeRole struct {
	name         string
	args         []string
	env          []corev1.EnvVar
	capabilities []corev1.Capability
}

// daemonSet returns the role's DaemonSet.
func (r nodeRole) daemonSet(namespace, run string, images lab.Images) *appsv1.DaemonSet {
	pod := RolePod(r.name, run, corev1.Container{
		Name:         r.name,
		Args:         r.args,
		Env:          r.env,
		VolumeMounts: []corev1.VolumeMount{{Name: tokenKey, MountPath: "/etc/meshtrial/" + r.name, ReadOnly: true}},
	}, images)
	security := pod.Spec.Containers[0].SecurityContext
	security.RunAsNonRoot = Ptr(false)
	security.RunAsUser = Ptr(int64(0))
	security.RunAsGroup = Ptr(int64(0))
	security.AllowPrivilegeEscalation = nil // SYS_ADMIN implies it
	security.Capabilities.Add = r.capabilities
	pod.Spec.HostPID = true
	pod.Spec.Volumes = []corev1.Volume{{Name: tokenKey, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: r.name, DefaultMode: Ptr(int32(0o400))},
	}}}
	return roleSet(r.name, namespace, run, pod)
}

// roleSet returns a DaemonSet of a role's pods.
func roleSet(role, namespace, run string, pod corev1.PodTemplateSpec) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: namespace, Labels: Labels(run, role)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: role}},
			Template: pod,
		},
	}
}

// NodeRoles has clients of a role's pods, one per node.
type NodeRoles[C any] struct {
	*Site
	ByNode map[string]C

	role string
	port int
	// dial returns a client of a pod's control server, or why the server does not
	// respond.
	dial func(ctx context.Context, line *http.Client) (C, error)
}

// connect waits until the role responds on all wanted nodes, as determined by
// complete given the number of pods, and fills in ByNode.
func (r *NodeRoles[C]) connect(ctx context.Context, complete func(ctx context.Context, pods int) (podwait.Seen, error)) error {
	limited, cancel := context.WithTimeout(ctx, ReadyTimeout)
	defer cancel()
	var unanswered error // why the last ready pod did not respond
	err := podwait.Until(limited, r.Kube, r.Namespace, "the "+r.role+" role", func(ctx context.Context) (podwait.Seen, error) {
		pods, err := r.Kube.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: mesh.AppLabel + "=" + r.role})
		if err != nil {
			return podwait.Seen{}, err
		}
		clear(r.ByNode)
		unanswered = nil
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !lab.PodReady(pod) {
				continue
			}
			client, err := r.dial(ctx, r.HTTP(pod, r.port))
			if err != nil { // it may not be listening yet
				unanswered = err
				continue
			}
			r.ByNode[pod.Spec.NodeName] = client
		}
		seen, err := complete(ctx, len(pods.Items))
		seen.Pods = pods.Items
		return seen, err
	})
	if err == nil || errs.Hint(err) != "" {
		return err
	}
	return errs.WithHint(errors.Join(err, unanswered), "kubectl -n %s describe daemonset %s", r.Namespace, r.role)
}

// createNodeRole creates a node role's DaemonSet, and the Secret with the token,
// which only this run knows. Its control server listens on port.
func (s *Site) createNodeRole(ctx context.Context, set *appsv1.DaemonSet, port int) (token string, err error) {
	token = rand.Text()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: s.Namespace, Labels: set.Labels}, StringData: map[string]string{tokenKey: token}}
	if _, err := s.Kube.CoreV1().Secrets(s.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create Secret %s: %w", secret.Name, err)
	}
	if _, err := s.Kube.AppsV1().DaemonSets(s.Namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create DaemonSet %s: %w", set.Name, err)
	}
	s.KeepAlive(set.Name, port, token)
	return token, nil
}

package site

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokenKey is the key of a Secret, and the name of the file made of it, with
// the token that callers of a node role must send.
const tokenKey = "token"

// tokenFile is where a node role finds that file.
func tokenFile(role string) string { return "/etc/meshtrial/" + role + "/" + tokenKey }

// nodeRole is the DaemonSet of a role that acts on its node's processes: as
// root, with these capabilities, in the node's PID namespace, without a
// sidecar.
func nodeRole(role, namespace, run string, images lab.Images, container corev1.Container, capabilities ...corev1.Capability) *appsv1.DaemonSet {
	container.Name = role
	container.VolumeMounts = []corev1.VolumeMount{{Name: tokenKey, MountPath: "/etc/meshtrial/" + role, ReadOnly: true}}
	pod := RolePod(role, run, container, images)
	c := &pod.Spec.Containers[0]
	c.SecurityContext.RunAsNonRoot = Ptr(false)
	c.SecurityContext.RunAsUser = Ptr(int64(0))
	c.SecurityContext.RunAsGroup = Ptr(int64(0))
	c.SecurityContext.AllowPrivilegeEscalation = nil // SYS_ADMIN implies it
	c.SecurityContext.Capabilities.Add = capabilities
	pod.Labels["sidecar.istio.io/inject"] = "false"
	pod.Spec.HostPID = true
	pod.Spec.Volumes = []corev1.Volume{{Name: tokenKey, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: role, DefaultMode: Ptr(int32(0o400))},
	}}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: namespace, Labels: Labels(run, role)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: role}},
			Template: pod,
		},
	}
}

// createNodeRole makes a node role's DaemonSet, and the Secret with the token,
// which only this run knows. Its control server listens at port.
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

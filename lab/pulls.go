package lab

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// pullPatience is how long an image may be refused to a node. The kubelet
// tries again after 10 s, and then after 20 s: by then two tries have failed.
const pullPatience = 20 * time.Second

// pulls says when waiting for pods is of no use because their node cannot have
// the image. The zero value is ready to use; it remembers what it saw.
type pulls struct {
	failing map[string]pull // by pod's UID and container's name
}

type pull struct {
	since   time.Time
	message string // of the last try
}

// look is told now and then how pods are. It fails once one of their images
// has a name that is none, may not be pulled, or could not be for pullPatience.
func (p *pulls) look(pods []corev1.Pod, now time.Time) error {
	if p.failing == nil {
		p.failing = map[string]pull{}
	}
	for i := range pods {
		pod := &pods[i]
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for j := range statuses {
				if err := p.container(pod, &statuses[j], now); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *pulls) container(pod *corev1.Pod, status *corev1.ContainerStatus, now time.Time) error {
	key := string(pod.UID) + "/" + status.Name
	waiting := status.State.Waiting
	if waiting == nil {
		delete(p.failing, key) // it has its image
		return nil
	}
	node := "node " + cmp.Or(pod.Spec.NodeName, "unknown")
	switch waiting.Reason {
	case "InvalidImageName":
		return errs.WithCode(unpulled(pod, status.Name, fmt.Errorf("%s is not the name of an image: %s", imageOf(pod, status), waiting.Message)), errs.CodeUsage)
	case "ErrImageNeverPull":
		return unpulled(pod, status.Name, fmt.Errorf("%s may not pull image %s, and does not have it", node, imageOf(pod, status)))
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError":
	default:
		return nil
	}
	seen, ok := p.failing[key]
	if !ok {
		seen.since = now
	}
	// While the kubelet waits for its next try, older ones do not say what was
	// wrong with the last.
	if seen.message == "" || waiting.Reason != "ImagePullBackOff" {
		seen.message = waiting.Message
	}
	p.failing[key] = seen
	if now.Sub(seen.since) < pullPatience {
		return nil
	}
	return unpulled(pod, status.Name, fmt.Errorf("%s cannot pull image %s: %s", node, imageOf(pod, status), cmp.Or(seen.message, waiting.Reason)))
}

// imageOf is the image as the pod names it; nodes say it in other words.
func imageOf(pod *corev1.Pod, status *corev1.ContainerStatus) string {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if c.Name == status.Name {
				return c.Image
			}
		}
	}
	return status.Image
}

func unpulled(pod *corev1.Pod, container string, err error) error {
	return errs.WithHint(fmt.Errorf("container %s of pod %s/%s: %w", container, pod.Namespace, pod.Name, err),
		"an image must be in a registry that the nodes may pull from (run --pull-secret, if it is private), or on each node already: docs/cluster.md, How the image gets there")
}

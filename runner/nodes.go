package runner

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
)

// describeNodes says of the machine what the API server knows of the pods' nodes,
// of several the first by name: where kubelets are asked nobody looks at it. What
// may not be read is not known.
func describeNodes(ctx context.Context, kube kubernetes.Interface, pods []site.Pod, m *record.Machine) {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Node)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if m.Nodes = len(names); m.Nodes == 0 {
		return
	}
	node, err := kube.CoreV1().Nodes().Get(ctx, names[0], metav1.GetOptions{})
	if err != nil {
		return
	}
	info := node.Status.NodeInfo
	m.CPUs, m.MemoryBytes = int(node.Status.Capacity.Cpu().Value()), node.Status.Capacity.Memory().Value()
	m.Kernel, m.OS, m.NodeArch = info.KernelVersion, info.OSImage, info.Architecture
	m.ContainerRun = strings.Replace(info.ContainerRuntimeVersion, "://", " ", 1)
}

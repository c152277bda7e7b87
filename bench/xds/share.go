package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shareGroup is the cgroup of the sidecars' process, next to istiod's pod.
const shareGroup = "bench-xds"

// CPU shares that the kubelet gives a study's pod of simulated proxies, which requests 0.3
// CPUs: in a cgroup's shares, and as a weight in the unified hierarchy.
const podShares, podWeight = 307, 40

// besideIstiod moves a process into a cgroup next to that of istiod's pod, with the CPU share
// of a study's pod. Outside the lab's group it would get a twentieth of what the lab gets on a
// busy machine, and a lag that no study has. leave removes the group when the process has
// ended.
func (m *mesh) besideIstiod(ctx context.Context, pid int) (leave func() error, err error) {
	pods, err := m.kube.CoreV1().Pods("istio-system").List(ctx, metav1.ListOptions{LabelSelector: "app=istiod"})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) == 0 {
		return nil, errors.New("istio-system has no pod of istiod")
	}
	for _, root := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"} {
		pod, err := findDir(root, "pod"+string(pods.Items[0].UID))
		if err != nil {
			continue
		}
		file, value := "cpu.shares", podShares
		if _, err := os.Stat(filepath.Join(pod, file)); err != nil {
			file, value = "cpu.weight", podWeight
		}
		dir := filepath.Join(filepath.Dir(pod), shareGroup)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("the sidecars' cgroup: %w", err)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, int64(value), 10), 0),
			os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0)); err != nil {
			return nil, fmt.Errorf("the sidecars' cgroup: %w", errors.Join(err, os.Remove(dir)))
		}
		return func() error { return os.Remove(dir) }, nil
	}
	return nil, fmt.Errorf("no cgroup of istiod's pod %s below /sys/fs/cgroup", pods.Items[0].UID)
}

// findDir returns the path of the folder with a given name below root.
func findDir(root, name string) (at string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			at = path
			return fs.SkipAll
		}
		return nil // groups come and go
	})
	if err == nil && at == "" {
		err = fs.ErrNotExist
	}
	return at, err
}

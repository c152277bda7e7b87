package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shareGroup is the cgroup of the sidecars' process, beside istiod's pod.
const shareGroup = "bench-xds"

// podMilliCPU is what the pod of simulated proxies asks for in a study.
const podMilliCPU = 300

// part is one of the CPU: in a cgroup's shares, and in the weight of the unified hierarchy.
type part struct{ shares, weight int }

// ofPods is what the kubelet gives n pods together that share out that request, each by what
// it asks for, in whole thousandths of a CPU.
func ofPods(n int) part {
	shares := max(eachMilliCPU(n)*1024/1000, 2)
	return part{n * shares, n * weightOf(shares)}
}

// eachMilliCPU is what each of n pods asks for.
func eachMilliCPU(n int) int { return max(podMilliCPU/n, 1) }

// weightOf turns shares into a weight as kubelets do (github.com/opencontainers/cgroups,
// ConvertCPUSharesToCgroupV2Value).
func weightOf(shares int) int {
	if shares <= 2 {
		return 1
	}
	l := math.Log2(float64(shares))
	return int(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34)))
}

// besideIstiod moves a process into a cgroup beside that of istiod's pod, with
// a part of the CPU as pods have. Outside the lab's group it would get a twentieth
// of what the lab gets on a busy machine, and its lag would be that of no study.
// leave removes the group when the process has ended.
func (m *mesh) besideIstiod(ctx context.Context, pid int, has part) (leave func() error, err error) {
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
		file, value := "cpu.shares", has.shares
		if _, err := os.Stat(filepath.Join(pod, file)); err != nil {
			file, value = "cpu.weight", has.weight
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

var errFound = errors.New("found")

// findDir returns the path of the folder of a name below root.
func findDir(root, name string) (string, error) {
	var at string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			at = path
			return errFound
		}
		return nil // groups come and go
	})
	switch {
	case at != "":
		return at, nil
	case err != nil:
		return "", err
	}
	return "", fs.ErrNotExist
}

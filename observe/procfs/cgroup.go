package procfs

import (
	"fmt"
	"regexp"
	"strings"
)

// id is what container ids and pod UIDs may look like: nothing that could
// leave a path.
var id = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_.-]{5,127}$`)

// ContainerID is a container's id without the name of its runtime, which the
// API puts before it ("containerd://"). It fails if it is none.
func ContainerID(text string) (string, error) {
	container := text
	if _, after, ok := strings.Cut(text, "://"); ok {
		container = after
	}
	if !id.MatchString(container) {
		return "", fmt.Errorf("%.100q is no container id", text)
	}
	return container, nil
}

// ContainerCgroup returns a test for the name of a container's cgroup.
//
// The names are, for the cgroupfs and the systemd driver of kubelet and
// runtime:
//
//	CONTAINER    cri-containerd-CONTAINER.scope, crio-..., docker-...
//	             slice:cri-containerd:CONTAINER (containerd set to cgroupfs
//	             below a kubelet set to systemd)
func ContainerCgroup(text string) (func(name string) bool, error) {
	container, err := ContainerID(text)
	if err != nil {
		return nil, err
	}
	return func(name string) bool {
		name, scope := strings.CutSuffix(name, ".scope")
		rest, ok := strings.CutSuffix(name, container)
		if !ok || strings.Contains(rest, "conmon") { // CRI-O's monitor has a scope of its own
			return false
		}
		return rest == "" || strings.HasSuffix(rest, ":") || scope && strings.HasSuffix(rest, "-")
	}, nil
}

// PodCgroup returns a test for the name of a pod's cgroup: podUID, or with
// the systemd driver kubepods-burstable-podU_I_D.slice.
func PodCgroup(uid string) (func(name string) bool, error) {
	if !id.MatchString(uid) {
		return nil, fmt.Errorf("%.100q is no pod UID", uid)
	}
	plain := "pod" + uid
	slice := "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	return func(name string) bool { return name == plain || strings.HasSuffix(name, slice) }, nil
}

// InCgroup tells from /proc/PID/cgroup whether a process is in a cgroup whose
// name matches, or in one below it.
func InCgroup(data []byte, match func(name string) bool) bool {
	for line := range strings.Lines(string(data)) {
		// hierarchy:controllers:path, where the path may hold colons
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, path, _ := strings.Cut(rest, ":")
		for name := range strings.SplitSeq(path, "/") {
			if name != "" && match(name) {
				return true
			}
		}
	}
	return false
}

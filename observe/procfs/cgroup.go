package procfs

import (
	"fmt"
	"regexp"
	"strings"
)

// id matches container IDs and pod UIDs, and nothing that could escape a path.
var id = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_.-]{5,127}$`)

// ContainerID returns a container's ID without the runtime prefix of the API
// ("containerd://"). It returns an error for an invalid ID.
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

// ContainerCgroup returns a predicate for the name of a container's cgroup.
//
// With the cgroupfs and the systemd driver of kubelet and runtime, the names
// are:
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
		if !ok || strings.Contains(rest, "conmon") { // CRI-O's monitor has its own scope
			return false
		}
		return rest == "" || strings.HasSuffix(rest, ":") || scope && strings.HasSuffix(rest, "-")
	}, nil
}

// PodCgroup returns a predicate for the name of a pod's cgroup: podUID, or
// kubepods-burstable-podU_I_D.slice with the systemd driver.
func PodCgroup(uid string) (func(name string) bool, error) {
	if !id.MatchString(uid) {
		return nil, fmt.Errorf("%.100q is no pod UID", uid)
	}
	plain := "pod" + uid
	slice := "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	return func(name string) bool { return name == plain || strings.HasSuffix(name, slice) }, nil
}

// InCgroup reports, from /proc/PID/cgroup, whether a process is in a cgroup
// whose name matches, or in a descendant of one.
func InCgroup(data []byte, match func(name string) bool) bool {
	for line := range strings.Lines(string(data)) {
		// hierarchy:controllers:path, where the path may contain colons
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

package labtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PIDs lists the processes of a lab, by its cgroup, that run a program; "" means
// all.
func PIDs(lab, program string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		groups, _ := os.ReadFile(dir + "/cgroup") // a process that has ended has none
		if !strings.Contains(string(groups), "/meshtrial-"+lab) {
			continue
		}
		command, _ := os.ReadFile(dir + "/cmdline")
		name, _, _ := strings.Cut(string(command), "\x00")
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && (program == "" || filepath.Base(name) == program) {
			pids = append(pids, pid)
		}
	}
	return pids
}

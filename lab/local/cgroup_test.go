package local

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

const (
	mountsV1 = `25 30 0:23 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
26 25 0:24 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
27 25 0:25 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
28 25 0:26 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
29 25 0:27 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
30 25 0:28 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
31 25 0:28 / /other\040place rw,relatime - cgroup cgroup rw,pids
32 25 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
33 25 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	mountsTogether = `26 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
`
)

func TestFindCgroups(t *testing.T) {
	v1, err := findCgroups(strings.NewReader(mountsV1))
	if err != nil || len(v1) != 7 {
		t.Fatalf("%d hierarchies, %v", len(v1), err)
	}
	if v1.unified() || len(v1.lacking()) > 0 {
		t.Errorf("v1: unified %t, lacking %v", v1.unified(), v1.lacking())
	}
	together, err := findCgroups(strings.NewReader(mountsTogether))
	if err != nil || !slices.Equal(together[0].controllers, []string{"cpu", "cpuacct"}) {
		t.Errorf("%+v, %v", together, err)
	}
	if lacks := together.lacking(); !slices.Equal(lacks, []string{"cpuset", "memory", "pids"}) {
		t.Errorf("lacking %v", lacks)
	}
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpuset cpu io memory pids\n"), 0o600))
	v2, err := findCgroups(strings.NewReader("30 23 0:26 / " + dir + " rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"))
	if err != nil || !v2.unified() || len(v2.lacking()) > 0 {
		t.Errorf("%+v, %v, lacking %v", v2, err, v2.lacking())
	}
	if none, _ := findCgroups(strings.NewReader("")); none.unified() || len(none.lacking()) == 0 {
		t.Error("no hierarchy counts as a machine with cgroups")
	}
}

// TestCreate checks what is written, on plain folders.
func TestCreate(t *testing.T) {
	read := func(parts ...string) string {
		data, err := os.ReadFile(filepath.Join(parts...))
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	cpuset, cpu, unified := t.TempDir(), t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"cpuset.cpus": "0-1", "cpuset.mems": "0"} {
		must.OK(t, os.WriteFile(filepath.Join(cpuset, name), []byte(text), 0o600))
	}
	groups := cgroups{{mount: cpuset, controllers: []string{"cpuset"}}, {mount: cpu, controllers: []string{"cpu"}}, {mount: unified, v2: true, controllers: []string{"cpu"}}}
	for range 2 { // repeating is not an error
		must.OK(t, groups.create("/lab", labShare))
	}
	if got := read(cpuset, "lab", systemGroup, "cpuset.cpus"); got != "0-1" {
		t.Errorf("cpuset %q", got)
	}
	if got := read(cpu, "lab", "cpu.shares"); got != "20480" {
		t.Errorf("shares %q", got)
	}
	if got := read(unified, "lab", "cpu.weight"); got != "2000" {
		t.Errorf("weight %q", got)
	}
	if got := read(unified, "lab", "cgroup.subtree_control"); got != "+cpu" {
		t.Errorf("subtree_control %q", got)
	}
	must.OK(t, groups.join("/lab", 42))
	if got := read(unified, "lab", systemGroup, "cgroup.procs"); got != "42" {
		t.Errorf("procs %q", got)
	}
}

// A container's own group delegates controllers once all of its processes are below it;
// processes of the machine's root stay where they are.
func TestVacate(t *testing.T) {
	for _, c := range []struct {
		name   string
		root   bool
		procs  map[string]string // processes in the group after a process was moved; "" is the initial state
		failed map[string]error
		moved  []string
		want   string // part of the error, or of its hint
	}{
		{name: "empty"},
		{name: "the root", root: true, procs: map[string]string{"": "1\n17\n"}},
		{name: "two", procs: map[string]string{"": "1\n17\n", "1": "17\n", "17": ""}, moved: []string{"1", "17"}},
		{name: "one begins meanwhile", procs: map[string]string{"": "1\n17\n", "17": "18\n", "18": ""}, moved: []string{"1", "17", "18"}},
		{name: "one ends meanwhile", procs: map[string]string{"": "1\n17\n", "1": ""}, failed: map[string]error{"17": unix.ESRCH}, moved: []string{"1", "17"}},
		{name: "not allowed", procs: map[string]string{"": "1\n17\n"}, failed: map[string]error{"1": unix.EBUSY}, moved: []string{"1"}, want: "busy"},
		{name: "of the host", procs: map[string]string{"": "0\n17\n"}, want: "--cgroupns=private"},
		{name: "without end", procs: map[string]string{"": "1\n"}, moved: slices.Repeat([]string{"1"}, 10), want: "keep appearing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hierarchy{mount: t.TempDir(), v2: true}
			procs := filepath.Join(h.mount, "cgroup.procs")
			put(t, procs, c.procs[""])
			if !c.root {
				put(t, filepath.Join(h.mount, "cgroup.type"), "domain\n")
			}
			var moved []string
			err := h.vacate(func(pid, group string) error {
				if group != filepath.Join(h.mount, hostGroup) {
					t.Errorf("moved to %s", group)
				}
				moved = append(moved, pid)
				if left, changed := c.procs[pid]; changed {
					put(t, procs, left)
				}
				return c.failed[pid]
			})
			if !slices.Equal(moved, c.moved) || (err == nil) != (c.want == "") {
				t.Errorf("moved %q, want %q; %v", moved, c.moved, err)
			}
			if err != nil && !strings.Contains(err.Error()+errs.Hint(err), c.want) {
				t.Errorf("%v (%s), want %q", err, errs.Hint(err), c.want)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"lab/kubepods/burstable/pod1/c1", "lab/kubepods/pod2", "lab/system", "other/lab"} {
		must.OK(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	groups := cgroups{{mount: root}, {mount: t.TempDir()}} // the second never had it
	must.OK(t, groups.remove(context.Background(), "/lab"))
	left, _ := list(root)
	if !slices.Equal(left, []string{"other"}) {
		t.Errorf("left %q", left)
	}
	// A group that cannot be removed is an error once time is up.
	must.OK(t, os.MkdirAll(filepath.Join(root, "busy", "full"), 0o755))
	os.WriteFile(filepath.Join(root, "busy", "full", "file"), nil, 0o600)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := groups.remove(ctx, "/busy"); err == nil {
		t.Error("a group that stays is no error")
	}
}

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/doctor"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fitMachine returns a fake machine that has everything.
func fitMachine(t *testing.T) machine {
	t.Helper()
	root := t.TempDir()
	put(t, root+"/proc/self/mountinfo", mountsV1)
	put(t, root+"/proc/meminfo", "MemTotal: 24000000 kB\nMemAvailable: 20000000 kB\n")
	for _, dir := range masked {
		must.OK(t, os.MkdirAll(root+dir, 0o700))
	}
	works := func() error { return nil }
	return machine{
		root: root, nodes: 1, uid: 4711, release: func() string { return "6.18.44-test" },
		free:     func(string) (uint64, error) { return 50 << 30, nil },
		writable: writable,
		files:    func() uint64 { return 20000 },
		lookPath: func(name string) (string, error) { return "/bin/" + name, nil }, namespaces: works, ranges: works,
		try:        func(feature, string) error { return nil },
		components: func() ([]components.Need, error) { return []components.Need{{Name: "go", Detail: "found"}}, nil },
	}
}

func failures(lines []doctor.Line) map[string]doctor.Line {
	failed := map[string]doctor.Line{}
	for _, line := range lines {
		if line.Status == doctor.Failure {
			failed[line.Name] = line
		}
	}
	return failed
}

func TestRequirements(t *testing.T) {
	broken := errors.New("not here")
	for _, test := range []struct {
		name   string
		damage func(m *machine)
		line   string // that fails
		says   string
	}{
		{"old kernel", func(m *machine) { m.release = func() string { return "5.10.0-8-amd64" } }, "kernel", "5.13"},
		{"odd kernel", func(m *machine) { m.release = func() string { return "" } }, "kernel", "unknown format"},
		{"no cgroups", func(m *machine) { put(t, m.root+"/proc/self/mountinfo", "") }, "cgroups", "no cgroup"},
		{"few cgroups", func(m *machine) { put(t, m.root+"/proc/self/mountinfo", mountsTogether) }, "cgroups", "memory"},
		{"no compiler", func(m *machine) {
			m.components = func() ([]components.Need, error) {
				return []components.Need{{Name: "go", Err: errs.WithHint(broken, "install it")}}, nil
			}
		}, "go", "not here"},
		{"no such component", func(m *machine) {
			m.components = func() ([]components.Need, error) { return nil, errs.WithHint(broken, "look") }
		}, "components", "not here"},
		{"no mount", func(m *machine) { m.lookPath = func(string) (string, error) { return "", broken } }, "mount", "not here"},
		{"no /var/lib", func(m *machine) { os.Remove(m.root + "/var/lib") }, "masked folders", "var/lib"},
		{"full disk", func(m *machine) { m.free = func(string) (uint64, error) { return 1 << 20, nil } }, "state disk", "2 GB needed"},
		{"little memory", func(m *machine) { put(t, m.root+"/proc/meminfo", "MemAvailable: 1000 kB\n") }, "memory", "3 GB needed"},
		{"memory for one of many nodes", func(m *machine) {
			m.nodes = 3
			put(t, m.root+"/proc/meminfo", "MemAvailable: 4000000 kB\n")
		}, "memory", "4 GB needed"},
		{"odd memory", func(m *machine) { put(t, m.root+"/proc/meminfo", "") }, "memory", "MemAvailable"},
		{"few files", func(m *machine) { m.files = func() uint64 { return 256 } }, "file limit", "256 open files allowed, 4096 needed"},
	} {
		m := fitMachine(t)
		test.damage(&m)
		failed := failures(m.check("/state", "/cache"))
		line, ok := failed[test.line]
		if !ok || !strings.Contains(line.Detail, test.says) || line.Mend == "" {
			t.Errorf("%s: %+v", test.name, failed)
		}
	}
}

func TestRequirementsRoot(t *testing.T) {
	m := fitMachine(t)
	m.free = func(string) (uint64, error) { return unknownSpace, nil }
	failed := failures(m.check("/state", "/cache"))
	if len(failed) != 1 || !strings.Contains(failed["root"].Detail, "4711") {
		t.Errorf("a user: %+v", failed)
	}
	put(t, m.root+"/proc/self/mountinfo", strings.ReplaceAll(mountsV1, "/sys/fs/cgroup", t.TempDir()+"/none"))
	m.uid = 0
	m.namespaces = func() error { return errors.New("operation not permitted") }
	m.ranges = func() error { return errors.New("no free range") }
	failed = failures(m.check("/state", "/cache"))
	for _, name := range []string{"cgroups", "namespaces", "addresses"} {
		if _, ok := failed[name]; !ok {
			t.Errorf("%s does not fail: %+v", name, failed)
		}
	}
	for _, line := range m.check("/state", "/cache") {
		if line.Name == "overlayfs" {
			t.Error("what needs namespaces was tried without them")
		}
	}
	err := refuse(m.check("/state", "/cache"))
	if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "namespaces") || !strings.Contains(err.Error(), "addresses") || errs.Hint(err) == "" {
		t.Errorf("%v (%s)", err, errs.Hint(err))
	}
}

// A container without its host's rights is told how to get them, and one without a volume
// how to add it.
func TestRequirementsContainer(t *testing.T) {
	m := fitMachine(t)
	m.uid = 0
	m.namespaces = func() error { t.Error("namespaces are tried without the right to make them"); return nil }
	put(t, m.root+"/proc/self/status", "Name:\tmeshtrial\nCapEff:\t00000000a80425fb\n") // docker's
	m.writable = func(dir string) error {
		if strings.HasPrefix(dir, "/sys/fs/cgroup") {
			return unix.EROFS
		}
		return nil
	}
	failed := failures(m.check("/state", "/cache"))
	for _, name := range []string{"root", "cgroups"} {
		if !strings.Contains(failed[name].Mend, "--privileged") {
			t.Errorf("%s: %+v", name, failed[name])
		}
	}
	if len(failed) != 2 {
		t.Errorf("%+v", failed)
	}

	m = fitMachine(t)
	m.uid = 0
	m.try = func(feature, string) error { return fmt.Errorf("no rule: %w", unix.EPERM) } // with CAP_SYS_ADMIN alone
	if err := refuse(m.check("/state", "/cache")); errs.Hint(err) != unprivileged {
		t.Errorf("%v (%s)", err, errs.Hint(err))
	}

	m = fitMachine(t)
	m.uid = 0
	put(t, m.root+"/proc/self/status", "CapEff:\t000001ffffffffff\n")
	if failed := failures(m.check("/state", "/cache")); len(failed) != 0 {
		t.Errorf("with all rights: %+v", failed)
	}
	m.writable = func(dir string) error {
		if dir == "/state" {
			return &os.PathError{Op: "access", Path: dir, Err: unix.EROFS}
		}
		return nil
	}
	failed = failures(m.check("/state", "/cache"))
	if line := failed["state disk"]; len(failed) != 1 || !strings.Contains(line.Detail, "/state cannot be written") || !strings.Contains(line.Mend, "volume") {
		t.Errorf("on a root that is only read: %+v", failed)
	}
}

// A cache without a volume, on a container's root, is told so rather than to load modules.
func TestRequirementsOverlay(t *testing.T) {
	m := fitMachine(t)
	m.uid = 0
	m.try = func(f feature, dir string) error {
		if f.name == "overlayfs" {
			return overlayError(dir, true, unix.EINVAL)
		}
		return nil
	}
	failed := failures(m.check("/state", "/cache"))
	if line := failed["overlayfs"]; len(failed) != 1 || !strings.Contains(line.Detail, "/cache") || !strings.Contains(line.Mend, "-v meshtrial:/meshtrial") {
		t.Errorf("%+v", failed)
	}
	if err := refuse(m.check("/state", "/cache")); strings.Contains(errs.Hint(err), "modprobe") {
		t.Error(errs.Hint(err))
	}
	err := refuse([]doctor.Line{{Status: doctor.Failure, Mend: unprivileged}, {Status: doctor.Failure, Mend: unprivileged}})
	if errs.Hint(err) != unprivileged {
		t.Errorf("the same advice twice: %s", errs.Hint(err))
	}
}

func TestTryNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces take root")
	}
	before, err := os.Readlink("/proc/self/ns/net")
	must.OK(t, err)
	must.OK(t, tryNamespaces())
	if after, err := os.Readlink("/proc/self/ns/net"); err != nil || after != before {
		t.Errorf("the process is in %s now, before in %s: %v", after, before, err)
	}
}

// An ambient mesh requires more of the kernel than a lab without one.
func TestRequirementsAmbient(t *testing.T) {
	m := fitMachine(t)
	m.uid = 0
	m.try = func(f feature, dir string) error {
		if f.name == ambientFeature.name {
			return errors.New("no such set type")
		}
		return nil
	}
	if failed := failures(m.check("/state", "/cache")); len(failed) > 0 {
		t.Errorf("asked of a lab without one: %+v", failed)
	}
	m.nodeNetwork = true
	failed := failures(m.check("/state", "/cache"))
	if line := failed["ambient mesh"]; !strings.Contains(line.Detail, "no such set type") || !strings.Contains(line.Mend, "ip_set") {
		t.Errorf("%+v", failed)
	}
}

// Each kernel feature is tried, on the cache's file system, and one that does not work is
// named with its modules.
func TestRequirementsFeatures(t *testing.T) {
	for _, none := range features {
		m := fitMachine(t)
		m.uid = 0
		m.try = func(f feature, dir string) error {
			if dir != "/cache" {
				t.Errorf("%s is tried in %s", f.name, dir)
			}
			if f.name == none.name {
				return errors.New("not supported")
			}
			return nil
		}
		failed := failures(m.check("/state", "/cache"))
		if line := failed[none.name]; len(failed) != 1 || line.Detail != "not supported" || !strings.Contains(line.Mend, none.modules) {
			t.Errorf("without %s: %+v", none.name, failed)
		}
	}
}

// This machine's kernel is tested by use: no lists of loaded modules are read, and nothing
// remains.
func TestTryFeatures(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces take root")
	}
	dir := t.TempDir()
	for _, f := range features {
		if err := tryFeature(f, dir); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts below %s, or %v", dir, err)
	}
}

// Each extension in the rules is tried individually.
func TestTryExtensions(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces take root")
	}
	for _, none := range []extension{{"meshtrial", false}, {"MESHTRIAL", true}, {"CONNMARK", false}, {"owner", true}} {
		err := tryFeature(feature{try: func(string) error { return tryExtensions([]extension{{"mark", false}, none, {"REDIRECT", true}}) }}, t.TempDir())
		if err == nil || strings.Count(err.Error(), "iptables") != 1 || !strings.Contains(err.Error(), strconv.Quote(none.name)) {
			t.Errorf("%+v: %v", none, err)
		}
	}
}

func TestDiskLooksAtTheNearestFolder(t *testing.T) {
	dir := t.TempDir()
	m := fitMachine(t)
	m.free = freeBytes
	detail, err := m.disk(filepath.Join(dir, "not", "yet"))
	if err != nil || !strings.HasSuffix(detail, dir) {
		t.Errorf("%s, %v", detail, err)
	}
}

package local

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// FuzzRecord checks that an accepted lab.json names a lab of this folder and is
// unchanged when written again, and that the error about a rejected one names
// the file.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"schema": 1, "id": "abc123", "phase": "ready", "boot_id": "b", "started": "2026-11-21T12:00:00Z", "init_pid": 7,
		"network": {"pods": "10.1.0.0/16"}, "sysctls": {"fs/inotify/max_user_instances": 128}, "images": {"proxies": {"1.40.0": "x"}}}`))
	f.Add([]byte(`{"id": "../../x"}`))
	f.Add([]byte(`{"id": "ABC123", "init_pid": -1}`))
	f.Add([]byte(`{`))
	p := paths{f.TempDir()}
	f.Fuzz(func(t *testing.T, text []byte) {
		must.OK(t, os.WriteFile(p.record(), text, 0o600))
		r, err := p.readRecord()
		if err != nil {
			if !strings.Contains(err.Error(), p.record()) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if dir := string(p.dir(r.ID)); filepath.Dir(dir) != p.base || len(hostInterface(r.ID)) > 15 {
			t.Errorf("%q: its folder is %s, its interface %s", text, dir, hostInterface(r.ID))
		}
		_ = r.initAlive()
		if err := p.writeRecord(r); err != nil {
			t.Fatalf("%q cannot be written again: %v", text, err)
		}
		again, err := p.readRecord()
		if err != nil {
			t.Fatalf("%q cannot be read again: %v", text, err)
		}
		one, _ := json.Marshal(r)
		if other, _ := json.Marshal(again); !bytes.Equal(one, other) {
			t.Errorf("%s became %s", one, other)
		}
	})
}

// FuzzSysctls checks that, whatever a record and the file of pending values
// contain, only the setting that labs raise is written.
func FuzzSysctls(f *testing.F) {
	f.Add("fs/inotify/max_user_instances", 128, []byte(`{"fs/inotify/max_user_instances": 64}`), false)
	f.Add("../other", 1, []byte(`{"../../other": 2, "fs/inotify/other": 3}`), false)
	f.Add("fs/inotify/max_user_instances", 128, []byte(`{`), true)
	f.Add("fs/inotify/max_user_instances", 128, []byte(`null`), true)
	base := f.TempDir()
	s := sysctls{filepath.Join(base, "proc", "sys")}
	pending := filepath.Join(base, "sysctls.json")
	must.OK(f, os.MkdirAll(filepath.Join(s.root, filepath.Dir(inotifyInstances)), 0o700))
	others := []string{filepath.Join(base, "other"), filepath.Join(base, "proc", "other"), filepath.Join(s.root, "fs/inotify/other")}
	f.Fuzz(func(t *testing.T, name string, value int, text []byte, othersRun bool) {
		for _, path := range others {
			must.OK(t, os.WriteFile(path, []byte("7"), 0o600))
		}
		must.OK(t, s.set(map[string]int{inotifyInstances: needInotify}))
		must.OK(t, os.WriteFile(pending, text, 0o600))
		before := files(t, base)
		err := s.restore(map[string]int{name: value}, pending, othersRun)
		if err != nil && !strings.Contains(err.Error(), pending) {
			t.Errorf("%q, %q: %v", name, text, err)
		}
		for _, path := range others {
			if got, err := os.ReadFile(path); err != nil || string(got) != "7" {
				t.Errorf("%q, %q: %s holds %q, %v", name, text, path, got, err)
			}
		}
		for path := range files(t, base) {
			if !before[path] && path != pending {
				t.Errorf("%q, %q: it made %s", name, text, path)
			}
		}
	})
}

func files(t *testing.T, dir string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error { out[path] = true; return err })
	must.OK(t, err)
	return out
}

// FuzzCgroups checks that a hierarchy is found where it is mounted, whatever its
// folder is called and whatever else the file contains.
func FuzzCgroups(f *testing.F) {
	f.Add("/sys/fs/cgroup", mountsV1)
	f.Add("/a b\\040\t\n#\r", mountsTogether)
	f.Add("/\u00a0 - \u0085", "1 2 3 / /x\\04 rw - cgroup a rw,cpu,cpuacct\n - cgroup2\n")
	f.Fuzz(func(t *testing.T, mount, others string) {
		if !strings.HasPrefix(mount, "/") || strings.ContainsRune(mount, 0) {
			return
		}
		// mangle in the kernel's fs/proc_namespace.c escapes these.
		escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`, "#", `\043`).Replace(mount)
		groups, err := findCgroups(strings.NewReader("30 23 0:26 / " + escaped + " rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n" + others))
		if err != nil {
			return // the line is too long
		}
		if len(groups) == 0 || groups[0].mount != mount || !groups[0].v2 {
			t.Fatalf("mounted at %q, found %+v", mount, groups)
		}
		if !groups.unified() && !slices.ContainsFunc(groups, func(h hierarchy) bool { return !h.v2 }) {
			t.Errorf("%+v are neither unified nor separate", groups)
		}
	})
}

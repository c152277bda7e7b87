// Package leakcheck reports what a test left behind on the machine: processes, mounts,
// namespaces, network interfaces, routes, packet filter rules, address sets, cgroups,
// listening sockets, settings and files.
//
// [Take] lists all of these before and after; [Snapshot.New] reports what was added.
// Nothing is cleaned up.
package leakcheck

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Options says where to look in addition to what every machine has.
type Options struct {
	// Files lists folders in which no file may appear, vanish or change. Default:
	// [HostFolders].
	Files []string
	// Rules is a command that prints the packet filter's rules, such as
	// "nft list ruleset"; empty skips them.
	Rules []string
	// Env is added to that command's environment.
	Env []string
	// Only, if set, narrows everything attributable (processes, namespaces, mounts,
	// cgroups, interfaces, routes, listeners) to entries that contain one of these words.
	// On a machine also used by others they are the names of the test's own cgroups and
	// interfaces, and its folders. Of the files in [HostFolders], it counts those that
	// contain one of the words, and all files in folders where a lab writes.
	Only []string
	// But, if set, returns names of those entries that currently belong to others.
	But func() []string
	// Sysctls lists files below /proc/sys whose value must not change.
	Sysctls []string
}

// HostFolders lists the folders of the host's own containerd, CNI, kubelet and
// configuration.
var HostFolders = []string{"/etc", "/opt", "/usr/libexec", "/var/lib/cni", "/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/var/log/containers",
	"/run/containerd", "/run/netns", "/run/runc", "/run/meshtrial", "/run/istio-cni", "/run/ztunnel"}

// labFolders lists the folders in which only Kubernetes, its network and this program
// write, whatever else is installed or configured on a machine meanwhile.
var labFolders = []string{"/etc/cni", "/etc/kubernetes", "/etc/containerd", "/opt/cni", "/opt/containerd", "/usr/libexec/kubernetes", "/var/lib/cni", "/var/lib/kubelet",
	"/var/log/pods", "/var/log/containers", "/run/netns", "/run/meshtrial", "/run/istio-cni", "/run/ztunnel"}

// Snapshot is the state of a machine at one moment: descriptions for each kind.
type Snapshot struct {
	kinds map[string]map[string]bool
	only  []string
	but   []string
	host  bool // files are those of [HostFolders]
}

// narrowed lists the kinds to which Options.Only applies.
var narrowed = []string{"process", "namespace", "mount", "cgroup", "interface", "route", "listener"}

// Take lists the machine's current state.
func Take(o Options) (*Snapshot, error) {
	s := &Snapshot{kinds: map[string]map[string]bool{}, only: o.Only}
	if o.But != nil {
		s.but = o.But()
	}
	if o.Files == nil {
		o.Files, s.host = HostFolders, true
	}
	s.processes()
	steps := []func() error{s.mounts, s.interfaces, s.routes, s.ipsets, s.listeners, s.cgroups,
		func() error { return s.files(o.Files) },
		func() error { return s.rules(o.Rules, o.Env) },
		func() error { return s.sysctls(o.Sysctls) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, fmt.Errorf("leakcheck: %w", err)
		}
	}
	return s, nil
}

// New lists, sorted, what s has and before lacked, and files that are gone.
func (s *Snapshot) New(before *Snapshot) []string {
	var found []string
	for kind, now := range s.kinds {
		for what := range now {
			if !before.kinds[kind][what] && s.counts(kind, what) {
				found = append(found, kind+" "+what)
			}
		}
	}
	for what := range before.kinds["file"] {
		if !s.kinds["file"][what] && s.counts("file", what) {
			found = append(found, "gone or changed: file "+what)
		}
	}
	slices.Sort(found)
	return found
}

func (s *Snapshot) counts(kind, what string) bool {
	if len(s.only) == 0 || !slices.Contains(narrowed, kind) && (kind != "file" || !s.host) {
		return true
	}
	if kind == "file" && slices.ContainsFunc(labFolders, func(dir string) bool { return strings.HasPrefix(what, dir+"/") }) {
		return true
	}
	has := func(word string) bool { return strings.Contains(what, word) }
	if kind == "mount" && has("/meshtrial/") { // in the program's cache or state, where no test mounts anything itself
		return true
	}
	return slices.ContainsFunc(s.only, has) && !slices.ContainsFunc(s.but, has)
}

// Check fails a test for everything that is new since before. It gives the machine a
// moment to finish what is ending.
func Check(t testing.TB, before *Snapshot, o Options, patience time.Duration) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		now, err := Take(o)
		must.OK(t, err)
		found := now.New(before)
		if len(found) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("left behind:\n  %s", strings.Join(found, "\n  "))
			return
		}
	}
}

func (s *Snapshot) add(kind, format string, args ...any) {
	if s.kinds[kind] == nil {
		s.kinds[kind] = map[string]bool{}
	}
	s.kinds[kind][fmt.Sprintf(format, args...)] = true
}

// processes lists processes and their namespaces. It omits processes that end while being
// read.
func (s *Snapshot) processes() {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(after) < 20 || after[0] == "Z" || after[0] == "X" {
			continue
		}
		groups, _ := os.ReadFile(dir + "/cgroup")
		group := deepest(string(groups))
		command, _ := os.ReadFile(dir + "/cmdline")
		text := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		if text == "" { // a kernel thread
			continue
		}
		s.add("process", "%s (started at tick %s) in cgroup %s: %.200s", filepath.Base(dir), after[19], group, text)
		for _, kind := range []string{"net", "mnt", "pid", "uts", "ipc"} {
			if target, err := os.Readlink(dir + "/ns/" + kind); err == nil {
				s.add("namespace", "%s of cgroup %s", target, group)
			}
		}
	}
}

// deepest returns the longest path in a /proc/PID/cgroup file.
func deepest(groups string) string {
	longest := "/"
	for _, line := range strings.Split(groups, "\n") {
		if parts := strings.SplitN(line, ":", 3); len(parts) == 3 && len(parts[2]) > len(longest) {
			longest = parts[2]
		}
	}
	return longest
}

func mountLines() ([][]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		before, after, _ := strings.Cut(line, " - ")
		if fields, kind := strings.Fields(before), strings.Fields(after); len(fields) > 4 && len(kind) > 0 {
			lines = append(lines, []string{fields[4], kind[0], fields[3]})
		}
	}
	return lines, nil
}

func (s *Snapshot) mounts() error {
	lines, err := mountLines()
	for _, m := range lines {
		s.add("mount", "%s (%s of %s)", m[0], m[1], m[2])
	}
	return err
}

func (s *Snapshot) interfaces() error {
	all, err := net.Interfaces()
	for _, i := range all {
		s.add("interface", "%s", i.Name)
	}
	return err
}

func (s *Snapshot) routes() error {
	data, err := os.ReadFile("/proc/net/route")
	for _, line := range strings.Split(string(data), "\n") {
		if fields := strings.Fields(line); len(fields) > 7 {
			s.add("route", "to %s mask %s by %s on %s", fields[1], fields[7], fields[2], fields[0])
		}
	}
	return err
}

// ipsets lists the address sets of the checker's network namespace, which packet filter
// rules match against. A kernel without support has none.
func (s *Snapshot) ipsets() error {
	all, err := netlink.IpsetListAll()
	if err != nil {
		return nil // no error code identifies a kernel without them
	}
	for _, set := range all {
		s.add("ipset", "%s (%s)", set.SetName, set.TypeName)
	}
	return nil
}

// listeners lists listening TCP sockets of the checker's network namespace, with the
// processes that hold them.
func (s *Snapshot) listeners() error {
	owners := map[string]string{}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, "socket:[") {
			owners[strings.Trim(target, "socket:[]")] = filepath.Dir(filepath.Dir(link))
		}
	}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(data), "\n") {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != "0A" {
				continue
			}
			owner := owners[fields[9]]
			groups, _ := os.ReadFile(owner + "/cgroup")
			command, _ := os.ReadFile(owner + "/cmdline")
			s.add("listener", "%s of cgroup %s: %.200s", fields[1], deepest(string(groups)), bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
		}
	}
	return nil
}

func (s *Snapshot) cgroups() error {
	lines, err := mountLines()
	if err != nil {
		return err
	}
	for _, m := range lines {
		if m[1] != "cgroup" && m[1] != "cgroup2" {
			continue
		}
		filepath.WalkDir(m[0], func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				s.add("cgroup", "%s", path)
			}
			return nil // groups come and go while others work
		})
	}
	return nil
}

func (s *Snapshot) files(dirs []string) error {
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			info, err := entry.Info()
			switch {
			case err != nil:
			case entry.IsDir():
				s.add("file", "%s/", path)
			default:
				s.add("file", "%s %o %d bytes of %s", path, info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano))
			}
			return nil
		})
	}
	return nil
}

func (s *Snapshot) rules(command, env []string) error {
	if data, err := os.ReadFile("/proc/net/ip_tables_names"); err == nil {
		for _, table := range strings.Fields(string(data)) {
			s.add("rule", "iptables table %s", table)
		}
	}
	if len(command) == 0 {
		return nil
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			s.add("rule", "%s", line)
		}
	}
	return nil
}

func (s *Snapshot) sysctls(names []string) error {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			return err
		}
		s.add("sysctl", "%s = %s", name, strings.TrimSpace(string(data)))
	}
	return nil
}

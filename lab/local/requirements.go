package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/doctor"
)

// What a lab needs at least.
const (
	needDisk   = 2 << 30 // bytes, in the state and the cache folder
	needMemory = 3 << 30 // bytes available; the lab with istiod takes 1.5 GB
	nodeMemory = 1 << 29 // for each node beyond the first
	needFiles  = 4096    // open files
	needMajor  = 5       // kernel, for kube-proxy's nftables mode
	needMinor  = 13
)

// machine answers what the requirements ask; tests have one of their own.
type machine struct {
	root       string // of /proc and /sys
	uid        int
	release    func() string
	free       func(dir string) (uint64, error) // bytes
	files      func() uint64                    // limit of open files
	lookPath   func(string) (string, error)
	namespaces func() error           // can they be made
	inside     func(dir string) error // what has to work inside them: overlayfs on dir, veth, nftables
	ranges     func() error           // are addresses free
	netfilter  func() error           // does it have what the rules of an ambient mesh need
	nodes      int                    // of the lab
	ambient    bool                   // the lab is to have an ambient mesh
}

// Requirements says line by line whether this machine can run a local lab,
// and what mends what it lacks. It changes nothing that outlives the call.
func Requirements(o Options) []doctor.Line {
	m := machine{
		root: "/", nodes: max(o.Nodes, 1), uid: os.Geteuid(), release: kernelRelease, free: freeBytes, files: fileLimit, lookPath: exec.LookPath,
		namespaces: tryNamespaces, inside: tryInside, netfilter: tryAmbient, ambient: o.Ambient,
		ranges: func() error {
			taken, err := takenRanges()
			if err == nil {
				_, err = chooseNetwork(taken, o.Nodes)
			}
			return err
		},
	}
	state, err := stateDir(o.StateDir)
	if err != nil {
		return []doctor.Line{{Name: "state folder", Status: doctor.Failure, Detail: err.Error(), Mend: "set XDG_STATE_HOME"}}
	}
	cache, err := components.CacheDir(o.CacheDir)
	if err != nil {
		return []doctor.Line{{Name: "cache folder", Status: doctor.Failure, Detail: err.Error(), Mend: errs.Hint(err)}}
	}
	return m.check(state.base, cache)
}

func (m machine) check(state, cache string) []doctor.Line {
	var lines []doctor.Line
	add := func(name, detail, mend string, err error) {
		if err != nil {
			lines = append(lines, doctor.Line{Name: name, Status: doctor.Failure, Detail: err.Error(), Mend: mend})
			return
		}
		lines = append(lines, doctor.Line{Name: name, Status: doctor.OK, Detail: detail})
	}
	root := error(nil)
	if m.uid != 0 {
		root = fmt.Errorf("a local lab makes namespaces and mounts, which takes root; this is user %d", m.uid)
	}
	add("root", "user 0", "run it as root: sudo -E meshtrial ...", root)
	add("kernel", m.release(), "use a newer kernel", m.kernel())
	groups, err := m.cgroups()
	add("lab cgroups", groups, "mount them, for example: mount -t cgroup2 cgroup2 /sys/fs/cgroup", err)
	add("overlayfs", "the kernel has it", "modprobe overlay", m.filesystem("overlay"))
	for _, tool := range []string{"mount", "umount"} {
		path, err := m.lookPath(tool)
		add(tool, path, "apt-get install mount", err)
	}
	add("masked folders", strings.Join(masked, ", "), "create them", m.folders())
	for _, folder := range []struct{ name, dir string }{{"lab state disk", state}, {"lab cache disk", cache}} {
		detail, err := m.disk(folder.dir)
		add(folder.name, detail, "free some space, or set XDG_STATE_HOME and MESHTRIAL_CACHE to folders on another disk", err)
	}
	detail, err := m.memory()
	add("lab memory", detail, "end other programs, or use a larger machine", err)
	if files := m.files(); files < needFiles {
		add("lab file limit", "", "ulimit -n 20000", fmt.Errorf("%d open files allowed, %d needed", files, needFiles))
	}
	if root != nil {
		return lines // what follows can only be tried as root
	}
	err = m.namespaces()
	add("namespaces", "PID, mount, network, UTS and IPC namespaces can be made", "allow them in the kernel's configuration, or in the container this runs in", err)
	if err == nil {
		add("inside namespaces", "overlayfs mounts on the cache folder's file system, veth links and nftables work",
			"modprobe -a overlay veth nf_tables nft_chain_nat xt_REDIRECT", m.inside(cache))
	}
	if m.ambient && err == nil {
		add("ambient mesh", "sets of addresses can be made, and rules have what its node agent asks of them", "modprobe -a "+ambientModules, m.netfilter())
	}
	add("lab addresses", "free ranges found", "remove a route from 10.0.0.0/8", m.ranges())
	return lines
}

func (m machine) kernel() error {
	release := m.release()
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("kernel release %q is not understood", release)
	}
	if major < needMajor || major == needMajor && minor < needMinor {
		return fmt.Errorf("kernel %s is older than %d.%d, which kube-proxy's nftables mode needs", release, needMajor, needMinor)
	}
	return nil
}

func (m machine) cgroups() (string, error) {
	f, err := os.Open(filepath.Join(m.root, "proc/self/mountinfo"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	groups, err := findCgroups(f)
	if err != nil {
		return "", err
	}
	if len(groups) == 0 {
		return "", errors.New("no cgroup hierarchy is mounted")
	}
	if lacks := groups.lacking(); len(lacks) > 0 {
		return "", fmt.Errorf("no mounted hierarchy has the controllers %s", strings.Join(lacks, ", "))
	}
	if m.uid == 0 {
		for _, h := range groups {
			if err := unix.Access(h.mount, unix.W_OK); err != nil {
				return "", fmt.Errorf("%s cannot be written: %w", h.mount, err)
			}
		}
	}
	if groups.unified() {
		return "v2", nil
	}
	return "v1", nil
}

func (m machine) filesystem(name string) error {
	data, err := os.ReadFile(filepath.Join(m.root, "proc/filesystems"))
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(data), "\n") {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == name {
			return nil
		}
	}
	return fmt.Errorf("the kernel has no %s file system", name)
}

func (m machine) folders() error {
	for _, dir := range masked {
		info, err := os.Stat(filepath.Join(m.root, dir))
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is no folder", dir)
		}
	}
	return nil
}

func (m machine) disk(dir string) (string, error) {
	for existing := dir; ; existing = filepath.Dir(existing) {
		free, err := m.free(existing)
		if errors.Is(err, os.ErrNotExist) && existing != filepath.Dir(existing) {
			continue // the nearest folder above that exists
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", existing, err)
		}
		text := fmt.Sprintf("%.1f GB free below %s", float64(free)/(1<<30), existing)
		if free < needDisk {
			return "", fmt.Errorf("%s, %d GB needed", text, needDisk>>30)
		}
		return text, nil
	}
}

func (m machine) memory() (string, error) {
	data, err := os.ReadFile(filepath.Join(m.root, "proc/meminfo"))
	if err != nil {
		return "", err
	}
	for _, line := range bytes.Split(data, []byte("\n")) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 || fields[0] != "MemAvailable:" {
			continue
		}
		kb, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return "", fmt.Errorf("MemAvailable: %w", err)
		}
		text := fmt.Sprintf("%.1f GB available", float64(kb)/(1<<20))
		need := uint64(needMemory + (m.nodes-1)*nodeMemory)
		if kb<<10 < need {
			return "", fmt.Errorf("%s, %.3g GB needed", text, float64(need)/(1<<30))
		}
		return text, nil
	}
	return "", errors.New("/proc/meminfo does not say how much memory is available")
}

func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

func freeBytes(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}

func fileLimit() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Max
}

// tryNamespaces starts a program in the namespaces that a lab uses.
func tryNamespaces() error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("start a process in new namespaces: %w", err)
	}
	return nil
}

// tryInside tries what a lab does inside its namespaces, on a thread of its
// own in namespaces of its own, which end with the call.
func tryInside(cache string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(cache, "probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	return thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make namespaces: %w", err)
		}
		return errors.Join(tryOverlay(scratch), tryVeth(), tryNftables())
	})
}

func tryOverlay(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	merged := filepath.Join(dir, "merged")
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return fmt.Errorf("overlayfs does not work on the file system of %s: %w", filepath.Dir(dir), err)
	}
	err := os.WriteFile(filepath.Join(merged, "file"), nil, 0o600)
	return errors.Join(err, unix.Unmount(merged, 0))
}

func tryVeth() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "meshtrial-try"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "meshtrial-peer"}); err != nil {
		return fmt.Errorf("veth links cannot be made: %w", err)
	}
	return nil
}

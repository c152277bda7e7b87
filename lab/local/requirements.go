package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/doctor"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// Minimum requirements of a lab.
const (
	needDisk   = 2 << 30 // bytes, in the state folder and in the cache folder
	needMemory = 3 << 30 // bytes available; the lab with istiod takes 1.5 GB
	wantMemory = 6 << 30 // for building the components
	nodeMemory = 1 << 29 // for each node beyond the first
	needFiles  = 4096    // open files
	wantFiles  = 16384   // for thousands of connections
	needMajor  = 5       // kernel, for kube-proxy's nftables mode
	needMinor  = 13
)

// machine is the object of the checks; tests replace it.
type machine struct {
	root        string // of /proc and /sys
	uid         int
	release     func() string
	free        func(dir string) (uint64, error) // bytes
	writable    func(dir string) error
	files       func() uint64 // limit of open files
	lookPath    func(string) (string, error)
	namespaces  func() error                      // whether they can be made
	try         func(f feature, dir string) error // in namespaces, on dir's file system
	ranges      func() error                      // whether addresses are free
	components  func() ([]components.Need, error) // requirements for making the lab's programs
	nodes       int                               // of the lab
	nodeNetwork bool                              // a mesh extends the nodes' network
}

// Requirements checks whether this machine can run a local lab, with advice on what is
// missing. [Up] refuses a machine with a failure among the lines; `doctor` prints all of
// them. Nothing it changes outlives the call, except modules that the kernel loads.
func Requirements(ctx context.Context, o Options) []doctor.Line {
	m := machine{
		root: "/", nodes: max(o.Nodes, 1), uid: os.Geteuid(), release: kernelRelease, free: freeBytes, writable: writable, files: fileLimit, lookPath: exec.LookPath,
		namespaces: tryNamespaces, try: tryFeature, nodeNetwork: o.nodeNetwork(),
		ranges: func() error {
			taken, err := takenRanges()
			if err == nil {
				_, err = chooseNetwork(taken, o.Nodes)
			}
			return err
		},
		components: func() ([]components.Need, error) {
			builder, err := components.New(components.Options{})
			if err != nil {
				return nil, err
			}
			return builder.Needs(ctx, o.componentNames()...)
		},
	}
	state, err := stateDir("")
	if err != nil {
		return []doctor.Line{{Name: "state folder", Status: doctor.Failure, Detail: err.Error(), Mend: "set XDG_STATE_HOME"}}
	}
	cache, err := components.CacheDir("")
	if err != nil {
		return []doctor.Line{{Name: "cache folder", Status: doctor.Failure, Detail: err.Error(), Mend: errs.Hint(err)}}
	}
	return m.check(state.base, cache)
}

// componentNames returns the names of the lab's components.
func (o Options) componentNames() []string {
	names := append([]string{"cni", "pause", "coredns", "ca-certificates"}, programNames...)
	for _, s := range o.Supplies {
		names = append(names, s.Components...)
	}
	return names
}

// nodeNetwork reports whether a mesh extends the nodes' network.
func (o Options) nodeNetwork() bool {
	return slices.ContainsFunc(o.Supplies, func(s lab.Supply) bool { return s.NodeNetwork })
}

// check returns the lines, from the kernel up to what builds on it.
func (m machine) check(state, cache string) []doctor.Line {
	var lines []doctor.Line
	add := func(name, detail, mend string, err error) {
		if err != nil {
			lines = append(lines, doctor.Line{Name: name, Status: doctor.Failure, Detail: err.Error(), Mend: mend})
			return
		}
		lines = append(lines, doctor.Line{Name: name, Status: doctor.OK, Detail: detail})
	}
	root, mend := error(nil), "run meshtrial as root (sudo -E meshtrial ...), or use your own cluster (--lab cluster)"
	if m.uid != 0 {
		root = fmt.Errorf("a local lab creates namespaces and mounts, which requires root; this is user %d", m.uid)
	} else if !m.mayMount() {
		root, mend = errors.New("user 0 may not mount here (no CAP_SYS_ADMIN), as in most containers"), unprivileged
	}
	add("root", "user 0", mend, root)
	add("kernel", m.release(), "use a newer kernel", m.kernel())
	groups, err := m.cgroups()
	mend = "mount them, for example: mount -t cgroup2 cgroup2 /sys/fs/cgroup"
	if errors.Is(err, unix.EROFS) {
		mend = unprivileged
	}
	add("cgroups", groups, mend, err)
	if root == nil { // these can be tried only as root
		m.tryAll(cache, add)
	}
	for _, tool := range []string{"mount", "umount"} {
		path, err := m.lookPath(tool)
		add(tool, path, "apt-get install mount", err)
	}
	add("masked folders", strings.Join(masked, ", "), "create them", m.folders())
	for _, folder := range []struct{ name, dir string }{{"state disk", state}, {"cache disk", cache}} {
		detail, err := m.disk(folder.dir)
		mend := "free some space, or set XDG_STATE_HOME and MESHTRIAL_CACHE to folders on another disk"
		if errors.Is(err, unix.EROFS) {
			mend = volume
		}
		add(folder.name, detail, mend, err)
	}
	lines = append(lines, m.memory(), m.fileLimit())
	needs, err := m.components()
	if err != nil {
		add("components", "", errs.Hint(err), err)
	}
	for _, n := range needs {
		add(n.Name, n.Detail, errs.Hint(n.Err), n.Err)
	}
	return lines
}

// tryAll tries the features that require root.
func (m machine) tryAll(cache string, add func(name, detail, mend string, err error)) {
	err := m.namespaces()
	add("namespaces", "PID, mount, network, UTS and IPC namespaces can be created", "allow them in the kernel's configuration, or in the container this runs in", err)
	if err == nil {
		tried := features
		if m.nodeNetwork {
			tried = append(slices.Clone(features), ambientFeature)
		}
		for _, f := range tried {
			err := m.try(f, cache)
			mend := cmp.Or(errs.Hint(err), f.mend())
			if errors.Is(err, unix.EPERM) {
				mend = unprivileged
			}
			add(f.name, f.works, mend, err)
		}
	}
	add("addresses", "free ranges found", "remove a route from 10.0.0.0/8", m.ranges())
}

func (m machine) kernel() error {
	release := m.release()
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("unknown format of kernel release %q", release)
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
			if err := m.writable(h.mount); err != nil {
				return "", fmt.Errorf("%s cannot be written: %w", h.mount, err)
			}
		}
	}
	if groups.unified() {
		return "v2", nil
	}
	return "v1", nil
}

// volume is the fix for a folder that cannot hold a lab.
const volume = "set XDG_STATE_HOME and MESHTRIAL_CACHE to folders on another file system; in a container, on a volume: docker run -v meshtrial:/meshtrial"

// unprivileged is the fix for a container that lacks its host's rights.
const unprivileged = "start the container with --privileged, as in docker run --privileged; a pod with securityContext: {privileged: true}"

// mayMount reports whether this process may mount and make namespaces (CAP_SYS_ADMIN).
func (m machine) mayMount() bool {
	status, err := os.ReadFile(filepath.Join(m.root, "proc/self/status"))
	if err != nil {
		return true // trying it will tell
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "CapEff:"); ok {
			rights, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err != nil || rights&(1<<unix.CAP_SYS_ADMIN) != 0
		}
	}
	return true
}

func (m machine) folders() error {
	for _, dir := range masked {
		info, err := os.Stat(filepath.Join(m.root, dir))
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", dir)
		}
	}
	return nil
}

func (m machine) disk(dir string) (string, error) {
	for existing := dir; ; existing = filepath.Dir(existing) {
		free, err := m.free(existing)
		if errors.Is(err, os.ErrNotExist) && existing != filepath.Dir(existing) {
			continue // use the nearest existing parent folder
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", existing, err)
		}
		text := fmt.Sprintf("%.1f GB free below %s", float64(free)/(1<<30), existing)
		if free == unknownSpace {
			text = "unknown space below " + existing
		}
		if free < needDisk {
			return "", fmt.Errorf("%s, %d GB needed", text, needDisk>>30)
		}
		if err := m.writable(existing); errors.Is(err, unix.EROFS) {
			return "", fmt.Errorf("%s cannot be written: %w", existing, err)
		}
		return text, nil
	}
}

func (m machine) memory() doctor.Line {
	line := doctor.Line{Name: "memory", Status: doctor.Failure, Mend: "stop other programs, or use a larger machine"}
	data, err := os.ReadFile(filepath.Join(m.root, "proc/meminfo"))
	available := procfs.ParseMeminfo(data)["MemAvailable"]
	text := fmt.Sprintf("%.1f GB available", float64(available)/(1<<30))
	switch need := int64(needMemory + (m.nodes-1)*nodeMemory); {
	case err != nil:
		line.Detail = err.Error()
	case available == 0:
		line.Detail = "/proc/meminfo has no MemAvailable"
	case available < need:
		line.Detail = fmt.Sprintf("%s, %.3g GB needed", text, float64(need)/(1<<30))
	case available < wantMemory:
		line.Status, line.Detail = doctor.Warning, fmt.Sprintf("%s; building the components takes up to %d GB", text, wantMemory>>30)
	default:
		return doctor.Line{Name: line.Name, Status: doctor.OK, Detail: text}
	}
	return line
}

func (m machine) fileLimit() doctor.Line {
	files := m.files()
	line := doctor.Line{Name: "file limit", Status: doctor.OK, Detail: fmt.Sprintf("%d open files", files)}
	switch {
	case files < needFiles:
		line.Status, line.Detail = doctor.Failure, fmt.Sprintf("%d open files allowed, %d needed", files, needFiles)
	case files < wantFiles:
		line.Status, line.Detail = doctor.Warning, line.Detail+": thousands of connections need more"
	}
	if line.Status != doctor.OK {
		line.Mend = fmt.Sprintf("ulimit -Hn %d; in a container, docker run --ulimit nofile=%[1]d", wantFiles)
	}
	return line
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
	if fs.Blocks == 0 {
		return unknownSpace, nil
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}

// unknownSpace stands for the free space of a file system that does not report it, such as many
// of FUSE and 9p.
const unknownSpace = math.MaxUint64

func writable(dir string) error { return unix.Access(dir, unix.W_OK) }

func fileLimit() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Max
}

// tryNamespaces makes the namespaces that a lab uses.
func tryNamespaces() error {
	return thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC); err != nil {
			return fmt.Errorf("make namespaces: %w", err)
		}
		return nil
	})
}

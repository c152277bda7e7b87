package perf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/debugfile"
)

// roots has the distinct root file systems of processes. They stay open after
// the processes end, because the same path on the machine is another file.
type roots []*os.File

// rootsOf opens the roots of processes. It skips processes that have ended or
// are inaccessible, which perf reports.
func rootsOf(pids []int) roots {
	var out roots
	var seen []fs.FileInfo
	for _, pid := range pids {
		root, err := os.Open(fmt.Sprintf("/proc/%d/root", pid))
		if err != nil {
			continue
		}
		info, err := root.Stat()
		if err != nil || slices.ContainsFunc(seen, func(other fs.FileInfo) bool { return os.SameFile(other, info) }) {
			root.Close()
			continue
		}
		out, seen = append(out, root), append(seen, info)
	}
	return out
}

func (r roots) Close() {
	for _, root := range r {
		root.Close()
	}
}

// maxFiles limits the number of binaries read.
const maxFiles = 1000

// readELFs reads the symbol information of binaries, each from the first root
// that has it.
func (r roots) readELFs(modules []string) map[string]profile.ELF {
	out := map[string]profile.ELF{}
	for _, module := range modules {
		if !strings.HasPrefix(module, "/") || len(out) >= maxFiles {
			continue
		}
		for _, root := range r {
			e, err := readELF(root, module)
			if err == nil {
				out[module] = e
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				break
			}
		}
	}
	return out
}

func readELF(root *os.File, module string) (profile.ELF, error) {
	f, err := openIn(root, module)
	if err != nil {
		return profile.ELF{}, err
	}
	defer f.Close()
	return profile.ReadELF(f)
}

// debugDir is where distributions install debug files.
const debugDir = "/usr/lib/debug"

// name removes the names that perf guessed, and names binaries without a symbol
// table: from the debug file with the same build ID, because perf does not
// report whether it found that, or from Go's own table, which perf does not
// read.
func (r roots) name(p *profile.Profile, files map[string]profile.ELF) {
	p.Judge(files)
	for _, b := range p.Unnamed() {
		file, ok := files[b.Path]
		if !ok || b.Doubt != "" && b.BuildID != file.BuildID {
			continue // the file that ran is unavailable
		}
		for _, root := range r {
			if nameBy(p, b.Path, root, debugfile.ByID(debugDir, b.BuildID)) || nameBy(p, b.Path, root, b.Path) {
				break
			}
		}
	}
}

func nameBy(p *profile.Profile, binary string, root *os.File, path string) bool {
	f, err := openIn(root, path)
	if err != nil {
		return false
	}
	defer f.Close()
	return p.Symbolise(binary, f) == nil
}

// openIn opens a regular file by its path in a root. Links resolve as for
// processes with that root, and never escape it. A path in a profile may name
// anything, and opening a device may have side effects, so openIn checks the
// type first.
func openIn(root *os.File, path string) (*os.File, error) {
	fd, err := unix.Openat2(int(root.Fd()), path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	handle := os.NewFile(uintptr(fd), path)
	defer handle.Close()
	info, err := handle.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, errNotRegular)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

var errNotRegular = errors.New("not a regular file")

package perf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/debugfile"
	"golang.org/x/sys/unix"
)

// roots are the file systems that processes see, each once. They stay open
// when the processes end: the same path of the machine is another file.
type roots []*os.File

// rootsOf opens the roots of processes. It skips processes that have ended or
// may not be looked at, which perf complains about.
func rootsOf(pids []int) roots {
	var out roots
	var seen []fs.FileInfo
next:
	for _, pid := range pids {
		root, err := os.Open(fmt.Sprintf("/proc/%d/root", pid))
		if err != nil {
			continue
		}
		info, err := root.Stat()
		if err != nil {
			root.Close()
			continue
		}
		for _, other := range seen {
			if os.SameFile(other, info) {
				root.Close()
				continue next
			}
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

// maxFiles bounds how many binaries are read.
const maxFiles = 1000

// readELFs reads how far the symbols of binaries go, each from the first root
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

// debugDir is where distributions put debug files.
const debugDir = "/usr/lib/debug"

// name takes away the names that perf guessed, and names binaries without a
// symbol table by the files beside them: by the debug file of the same build
// id, since perf does not say whether it found that, or by Go's own table,
// which perf does not read.
func (r roots) name(p *profile.Profile, files map[string]profile.ELF) {
	p.Judge(files)
	for _, b := range p.Unnamed() {
		file, ok := files[b.Path]
		if !ok || b.Doubt != "" && b.BuildID != file.BuildID {
			continue // what ran is not at hand
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

// openIn opens a regular file by its path in a root. Links lead where they do
// for processes with that root, and never out of it. A path in a profile may
// name anything, and opening a device may have effects: the file is looked at
// before it is opened.
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

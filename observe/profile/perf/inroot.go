package perf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/meshtrial/meshtrial/observe/profile"
)

// maxLinks bounds the links on a path; the kernel's own bound is 40.
const maxLinks = 40

// plainIn is the path of the plain file that a path within a root names, with
// no links left on it. Links lead where they do for those who have that root
// as theirs: an absolute one, and one that climbs out, stays in the root.
func plainIn(root *os.Root, name string) (string, fs.FileInfo, error) {
	at, rest, links := "", path.Clean("/"+name), 0
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		switch part {
		case "", ".":
			continue
		case "..":
			if at = path.Dir(at); at == "." {
				at = ""
			}
			continue
		}
		next := path.Join(at, part)
		info, err := root.Lstat(next)
		if err != nil {
			return "", nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, fmt.Errorf("%s: %w", name, syscall.ELOOP)
		}
		link, err := root.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if path.IsAbs(link) {
			at = ""
		}
		rest = link + "/" + rest
	}
	if at == "" {
		at = "."
	}
	info, err := root.Lstat(at)
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf("%s is no plain file", name)
	}
	return at, info, nil
}

// roots are the file systems that processes see, each once.
type roots []*os.Root

// rootsOf opens the roots of processes. They stay open when the processes end:
// what lies at the same path of the machine's own root is another file.
func rootsOf(pids []int) roots {
	var out roots
	type key struct {
		dev, ino  uint64
		namespace string
	}
	seen := map[key]bool{}
	for _, pid := range pids {
		proc := fmt.Sprintf("/proc/%d", pid)
		root, err := os.OpenRoot(filepath.Join(proc, "root"))
		if err != nil {
			continue // it has ended, or is none of ours: perf will say so
		}
		var k key
		if info, err := root.Stat("."); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				k.dev, k.ino = uint64(s.Dev), s.Ino
			}
		}
		k.namespace, _ = os.Readlink(filepath.Join(proc, "ns/mnt"))
		if seen[k] {
			root.Close()
			continue
		}
		seen[k] = true
		out = append(out, root)
	}
	return out
}

func (r roots) Close() {
	for _, root := range r {
		root.Close()
	}
}

// maxFiles bounds how many binaries are looked at.
const maxFiles = 1000

// lookAt reads what binaries say of themselves, each from the first root that
// has it.
func (r roots) lookAt(modules []string) map[string]profile.ELF {
	out := map[string]profile.ELF{}
	for _, module := range modules {
		if !strings.HasPrefix(module, "/") || len(out) >= maxFiles {
			continue
		}
		for _, root := range r {
			e, err := readELF(root, module)
			if err == nil {
				out[module] = e
				break
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				break
			}
		}
	}
	return out
}

func readELF(root *os.Root, module string) (profile.ELF, error) {
	f, err := openIn(root, module)
	if err != nil {
		return profile.ELF{}, err
	}
	defer f.Close()
	return profile.ReadELF(f)
}

// openIn opens a plain file within a root.
func openIn(root *os.Root, module string) (*os.File, error) {
	// A path in a profile may name anything: only plain files are opened, since
	// opening a device may already do something; and what takes a file's place
	// meanwhile cannot hold this up, nor lead out of the root.
	at, _, err := plainIn(root, module)
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is no plain file", module)
	}
	return f, nil
}

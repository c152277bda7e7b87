package components

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// arrange lays out unpacked packages (root/PACKAGE/...) as the Debian unit
// wants them in dir.
func arrange(root, dir string) error {
	for _, d := range []string{"bin", "lib", "image"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, p := range debianPackages {
		tree := filepath.Join(root, p.name)
		if p.image {
			if err := mergeUsr(tree, filepath.Join(dir, "image")); err != nil {
				return fmt.Errorf("package %s: %w", p.name, err)
			}
		}
		if p.host {
			if err := libraries(tree, filepath.Join(dir, "lib")); err != nil {
				return fmt.Errorf("package %s: %w", p.name, err)
			}
		}
		for _, program := range p.programs {
			from := firstOf(tree, "usr/bin/"+program, "usr/sbin/"+program)
			if from == "" {
				return fmt.Errorf("package %s has no program %s", p.name, program)
			}
			// A program may be a link into another folder (runc is).
			file, err := filepath.EvalSymlinks(from)
			if err != nil {
				return fmt.Errorf("package %s: %w", p.name, err)
			}
			if err := os.Link(file, filepath.Join(dir, "bin", program)); err != nil {
				return err
			}
		}
	}
	cni := firstOf(root, "containernetworking-plugins/usr/lib/cni", "containernetworking-plugins/usr/libexec/cni")
	if cni == "" {
		return fmt.Errorf("package containernetworking-plugins has no folder of plugins")
	}
	if err := os.Rename(cni, filepath.Join(dir, "cni")); err != nil {
		return err
	}
	if err := authorities(filepath.Join(root, "ca-certificates"), filepath.Join(dir, "ca-certificates.crt")); err != nil {
		return err
	}
	if err := plainIptables(filepath.Join(dir, "image")); err != nil {
		return err
	}
	// glibc of the host's programs is the host's own: its loader would not
	// take another.
	if err := checkLibraries(filepath.Join(dir, "bin"), filepath.Join(dir, "lib"), isGlibc); err != nil {
		return err
	}
	return checkLibraries(filepath.Join(dir, "image"), filepath.Join(dir, "image"), func(string) bool { return false })
}

func firstOf(root string, names ...string) string {
	for _, n := range names {
		if path := filepath.Join(root, n); exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// notInImage are parts of packages that a proxy has no use for.
var notInImage = []string{"usr/share", "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/audit", "etc", "usr/lib/systemd"}

// mergeUsr adds a package's files to an image in which /bin, /sbin, /lib and
// /lib64 are links into /usr, wherever the package itself puts them.
func mergeUsr(tree, image string) error {
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(image, "usr", d), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+d, filepath.Join(image, d)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		merged := filepath.ToSlash(rel)
		if first, _, _ := strings.Cut(merged, "/"); slices.Contains([]string{"bin", "sbin", "lib", "lib64"}, first) {
			merged = "usr/" + merged
		}
		if slices.Contains(notInImage, merged) {
			return filepath.SkipDir
		}
		to := filepath.Join(image, merged)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		default:
			return os.Link(path, to)
		}
	})
}

// libraries adds a package's shared libraries to dir.
func libraries(tree, dir string) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(d.Name(), ".so") {
			return err
		}
		to := filepath.Join(dir, d.Name())
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(filepath.Base(target), to)
		}
		return os.Link(path, to)
	})
}

// authorities writes the bundle that update-ca-certificates makes when the
// package is installed.
func authorities(tree, to string) error {
	files, err := filepath.Glob(filepath.Join(tree, "usr/share/ca-certificates/mozilla/*.crt"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("package ca-certificates holds no certificates")
	}
	slices.Sort(files)
	var all bytes.Buffer
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		all.Write(bytes.TrimSpace(b))
		all.WriteByte('\n')
	}
	return os.WriteFile(to, all.Bytes(), 0o644)
}

// plainIptables makes the links that Debian's alternatives make when the
// package is installed: iptables is the nftables variant.
func plainIptables(image string) error {
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			link := filepath.Join(image, "usr/sbin", family+suffix)
			if exists(link) {
				continue
			}
			if !exists(filepath.Join(image, "usr/sbin", family+"-nft"+suffix)) {
				return fmt.Errorf("package iptables has no %s-nft%s", family, suffix)
			}
			if err := os.Symlink(family+"-nft"+suffix, link); err != nil {
				return err
			}
		}
	}
	return nil
}

// isGlibc tells the libraries that come with the loader of programs.
func isGlibc(library string) bool {
	for _, own := range []string{"libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "ld-linux", "libgcc_s.so"} {
		if strings.HasPrefix(library, own) {
			return true
		}
	}
	return false
}

// namesBelow is the set of names of all files and folders in a tree.
func namesBelow(dir string) (map[string]bool, error) {
	names := map[string]bool{}
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			names[d.Name()] = true
		}
		return err
	})
	return names, err
}

// checkLibraries fails if a program below programs needs a library that is
// neither below libs nor exempt: a package's dependencies change with its
// version.
func checkLibraries(programs, libs string, exempt func(string) bool) error {
	have, err := namesBelow(libs)
	if err != nil {
		return err
	}
	return filepath.WalkDir(programs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := elf.Open(path)
		if err != nil {
			return nil // a script, or data
		}
		defer f.Close()
		needed, err := f.ImportedLibraries()
		if err != nil {
			return nil // static
		}
		for _, library := range needed {
			if !have[library] && !exempt(library) {
				return fmt.Errorf("%s needs the library %s, which is in none of the packages: add its package to the table", filepath.Base(path), library)
			}
		}
		return nil
	})
}

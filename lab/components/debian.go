package components

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// The Debian unit: every package of debianPackages in one entry.
//
//	bin/                  programs for the node
//	cni/                  CNI plugins
//	lib/                  libraries the programs in bin need, glibc aside
//	image/                the files of the proxy's image, with /usr merged
//	tools/                what a machine without packages lacks to run a lab, likewise
//	ca-certificates.crt   what update-ca-certificates would make
//
// It neither uses nor changes the host's own packages, indexes and caches.

// archive is the source of packages; tests have their own.
type archive interface {
	// identity is the part of the cache's key that identifies the archive.
	identity() map[string]any
	// processor is the processor that the packages are for, as Debian and Go call it.
	processor() string
	// fetch downloads packages into dir and checks them against the archive's signed
	// index.
	fetch(ctx context.Context, packages []string, dir string) ([]fetched, error)
	// unpack extracts a package's files into dir.
	unpack(ctx context.Context, path, dir string) error
}

// fetched is a package file as described in the index.
type fetched struct{ name, version, path, sha256 string }

func debianRecipe(a archive, note func(string)) recipe {
	inputs := a.identity()
	var names []string
	for _, p := range debianPackages {
		names = append(names, p.name)
	}
	inputs["packages"], inputs["layout"] = names, 2
	return recipe{name: "debian", inputs: inputs, make: func(ctx context.Context, dir string) ([]Version, error) {
		work := filepath.Join(dir, "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			return nil, err
		}
		got, err := a.fetch(ctx, names, work)
		if err != nil {
			return nil, err
		}
		versions, err := checkPackages(got, a.processor(), note)
		if err != nil {
			return nil, err
		}
		for _, g := range got {
			if err := a.unpack(ctx, g.path, filepath.Join(work, "root", g.name)); err != nil {
				return nil, err
			}
		}
		if err := arrange(filepath.Join(work, "root"), dir); err != nil {
			return nil, err
		}
		return versions, removeAll(work)
	}}
}

// checkPackages checks downloads against the index, and also against the table if the
// version is the table's.
func checkPackages(got []fetched, arch string, note func(string)) ([]Version, error) {
	var versions []Version
	for _, p := range debianPackages {
		i := slices.IndexFunc(got, func(g fetched) bool { return g.name == p.name })
		if i < 0 {
			return nil, fmt.Errorf("the archive did not serve the package %s", p.name)
		}
		g := got[i]
		_, sum, err := sumFile(g.path, false)
		if err != nil {
			return nil, err
		}
		want := g.sha256
		if g.version == p.version && arch == "amd64" {
			want = p.sha256
		}
		if sum != want {
			return nil, errs.WithHint(fmt.Errorf("package %s %s has the digest sha256:%s, want sha256:%s: refused", g.name, g.version, sum, want),
				"the archive, or a proxy in between, serves a different file than the pinned one")
		}
		if g.version != p.version {
			note(fmt.Sprintf("package %s is version %s here; %s was tested", p.name, g.version, p.version))
		}
		versions = append(versions, Version{Name: p.component(), Version: g.version, Source: "debian:" + p.name, Digest: "sha256:" + sum})
	}
	return versions, nil
}

// apt is the archive that this machine's apt-get is configured for, used with our own
// lists, caches and package state.
type apt struct{ arch string }

func (a apt) processor() string { return a.arch }

// releaseKeys are the os-release keys that identify a release.
var releaseKeys = []string{"ID", "VERSION_ID", "VERSION_CODENAME"}

// identity identifies this machine's release, whose C library the programs use.
func (a apt) identity() map[string]any {
	release, _ := os.ReadFile("/etc/os-release") // without it this is not Debian, which findApt reports when packages are needed
	return identityOf(release, a.arch)
}

func identityOf(release []byte, arch string) map[string]any {
	in := map[string]any{"arch": arch}
	for line := range strings.Lines(string(release)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && slices.Contains(releaseKeys, k) {
			in[k] = strings.Trim(v, `"`)
		}
	}
	return in
}

// findApt reports whether the programs that fetch and unpack packages exist.
func findApt(context.Context) error {
	for _, program := range []string{"apt-get", "apt-config", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return errs.WithHint(fmt.Errorf("%s is not in PATH", program),
				"containerd, runc, CNI plugins and image files come from Debian packages: use Debian or Ubuntu, or your own cluster (--lab cluster)")
		}
	}
	return nil
}

// aptKeep selects the host's settings for reaching its archive. All others are dropped:
// hooks would clean the host's own caches.
var aptKeep = regexp.MustCompile(`^Acquire::(http|https|ftp|tor|socks|Retries|ForceIPv4|ForceIPv6|AllowReleaseInfoChange)\b`)

func (a apt) configure(ctx context.Context, dir string) (config string, err error) {
	for _, d := range []string{"etc", "state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "state/status"), nil, 0o644); err != nil {
		return "", err
	}
	cmd := command(ctx, "apt-config", "dump")
	host, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("apt-config dump: %w", withOutput(err, nil))
	}
	var b bytes.Buffer
	for line := range strings.Lines(string(host)) {
		if aptKeep.MatchString(line) {
			b.WriteString(line)
		}
	}
	fmt.Fprintf(&b, "Dir::Etc::main \"/dev/null\";\nDir::Etc::parts %q;\n", filepath.Join(dir, "etc"))
	fmt.Fprintf(&b, "Dir::State %q;\nDir::State::lists %q;\nDir::State::status %q;\n",
		filepath.Join(dir, "state"), filepath.Join(dir, "state/lists"), filepath.Join(dir, "state/status"))
	fmt.Fprintf(&b, "Dir::Cache %q;\nDir::Cache::archives %q;\nDir::Log %q;\n",
		filepath.Join(dir, "cache"), filepath.Join(dir, "cache/archives"), dir)
	fmt.Fprintf(&b, "APT::Architecture %q;\nAPT::Architectures { %[1]q; };\n", a.arch)
	// Fetch only package lists, and do not switch users: another user could not write
	// here.
	b.WriteString("APT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n")
	for _, t := range []string{"DEP-11", "DEP-11-icons", "DEP-11-icons-small", "DEP-11-icons-hidpi", "CNF", "Contents-deb"} {
		fmt.Fprintf(&b, "Acquire::IndexTargets::deb::%s::DefaultEnabled \"false\";\n", t)
	}
	config = filepath.Join(dir, "apt.conf")
	return config, os.WriteFile(config, b.Bytes(), 0o644)
}

func (a apt) fetch(ctx context.Context, packages []string, dir string) ([]fetched, error) {
	if err := findApt(ctx); err != nil {
		return nil, err
	}
	config, err := a.configure(ctx, filepath.Join(dir, "apt"))
	if err != nil {
		return nil, err
	}
	debs := filepath.Join(dir, "debs")
	if err := os.Mkdir(debs, 0o755); err != nil {
		return nil, err
	}
	run := func(args ...string) (string, error) {
		cmd := command(ctx, "apt-get", args...)
		cmd.Dir = debs
		cmd.Env = append(os.Environ(), "APT_CONFIG="+config, "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", fmt.Errorf("apt-get %s: %w", args[0], withOutput(err, stderr.Bytes()))
		}
		return stdout.String(), nil
	}
	// The failed update may concern an unrelated archive, so the download decides.
	_, updated := run("update", "-q")
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	uris, err := run(append([]string{"download", "--print-uris"}, packages...)...)
	if err == nil {
		_, err = run(append([]string{"download", "-q"}, packages...)...)
	}
	if err != nil {
		return nil, errs.WithHint(errors.Join(updated, err),
			"the configured Debian archives must be reachable and serve these packages: %s", strings.Join(packages, " "))
	}
	return parseURIs(uris, debs)
}

// uriLine matches a line of apt-get download --print-uris.
var uriLine = regexp.MustCompile(`^'[^']*' (([a-z0-9][a-z0-9+.-]*)_([^_/]+)_[a-z0-9]+\.deb) [0-9]+ SHA256:([0-9a-f]{64})$`)

func parseURIs(uris, dir string) ([]fetched, error) {
	var all []fetched
	for line := range strings.Lines(uris) {
		m := uriLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return nil, fmt.Errorf("apt-get printed a package without name, version or SHA-256: %q", strings.TrimSpace(line))
		}
		all = append(all, fetched{name: m[2], version: strings.ReplaceAll(m[3], "%3a", ":"), path: filepath.Join(dir, m[1]), sha256: m[4]})
	}
	return all, nil
}

func (apt) unpack(ctx context.Context, path, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := command(ctx, "dpkg-deb", "--extract", path, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return cmp.Or(ctx.Err(), fmt.Errorf("unpacking %s: %w", filepath.Base(path), withOutput(err, out)))
	}
	return nil
}

// arrange lays out unpacked packages (root/PACKAGE/...) in dir as the Debian unit.
func arrange(root, dir string) error {
	for _, d := range []string{"bin", "lib", "image", "tools"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, p := range debianPackages {
		tree := filepath.Join(root, p.name)
		for into, wanted := range map[string]bool{"image": p.image, "tools": p.tools} {
			if !wanted {
				continue
			}
			if err := mergeUsr(tree, filepath.Join(dir, into)); err != nil {
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
			// A program may be a link into another folder, as runc is.
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
	// The host's programs use the host's glibc, as its loader accepts no other.
	if err := checkLibraries(filepath.Join(dir, "bin"), filepath.Join(dir, "lib"), isGlibc); err != nil {
		return err
	}
	image := filepath.Join(dir, "image")
	return checkLibraries(image, image, func(string) bool { return false })
}

// checkTools runs checkLibraries on the tools, which only the all-in-one image needs.
func (e entry) checkTools() error {
	inImage, err := namesBelow(e.path("image"))
	if err != nil {
		return err
	}
	return checkLibraries(e.path("tools"), e.path("tools"), func(library string) bool { return inImage[library] })
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

// notInImage lists parts of packages that a proxy does not need.
var notInImage = []string{"usr/share", "etc", "usr/lib/systemd",
	"usr/lib/x86_64-linux-gnu/gconv", "usr/lib/x86_64-linux-gnu/audit", "usr/lib/aarch64-linux-gnu/gconv", "usr/lib/aarch64-linux-gnu/audit"}

// mergeUsr adds a package's files to an image whose /bin, /sbin, /lib and /lib64
// are links into /usr.
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

// authorities writes the bundle that update-ca-certificates would make.
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

// plainIptables makes the links of Debian's alternatives, with the nftables variant as
// iptables.
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

// isGlibc reports whether a library ships with the dynamic loader.
func isGlibc(library string) bool {
	for _, own := range []string{"libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "ld-linux", "libgcc_s.so"} {
		if strings.HasPrefix(library, own) {
			return true
		}
	}
	return false
}

// namesBelow returns the names of all files and folders in a tree.
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

// checkLibraries fails if a program below programs needs a library that is neither
// below libs nor exempt: a package's dependencies change with its version.
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
			return nil // a script or data
		}
		defer f.Close()
		needed, err := f.ImportedLibraries()
		if err != nil {
			return nil // static
		}
		for _, library := range needed {
			if !have[library] && !exempt(library) {
				return fmt.Errorf("%s needs library %s, which no package contains: add its package to the table", filepath.Base(path), library)
			}
		}
		return nil
	})
}

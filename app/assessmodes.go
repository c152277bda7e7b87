package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/sizing"
)

// conclude assesses evidence, with what runs say of the mesh that it is of.
func (o Assessment) conclude(e assess.Evidence, runs []record.Run) (assess.Assessment, error) {
	e.Model, e.Prices, e.Runs = o.Model, o.Prices, len(runs)
	a := assess.Assess(e)
	stated, lacks := a.Stated()
	if len(runs) == 0 || lacks != "" {
		return a, nil
	}
	for _, run := range runs {
		modes, err := sized(run, stated)
		if err != nil {
			return a, err
		}
		for i := range modes {
			modes[i].Shipped = len(o.Runs) == 0
		}
		e.Modes = append(e.Modes, modes...)
		if of := istiodOf(run); of != "" && e.Istiod != "" && of != e.Istiod {
			e.Unknown = append(e.Unknown, assess.OtherBuild.Of(run.Header.RunID, of, e.Istiod))
		}
	}
	return assess.Assess(e), nil
}

// unitCosts are the runs that are given, or else those that ship.
func (o Assessment) unitCosts(ctx context.Context) (runs []record.Run, err error) {
	if len(o.Runs) == 0 {
		return shipped()
	}
	for _, path := range o.Runs {
		run, err := measured(ctx, path, o.Warn)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func istiodOf(run record.Run) string {
	if i := slices.IndexFunc(run.Header.Components, func(c record.Component) bool { return c.Name == "istiod" }); i >= 0 {
		return run.Header.Components[i].Version
	}
	return ""
}

// sized is what a run says of the ways to carry the requests of a mesh.
func sized(run record.Run, m sizing.Mesh) ([]assess.Modes, error) {
	sets := []string{"sizing.l7=" + strconv.FormatFloat(100*m.L7, 'f', 3, 64) + "%"}
	for _, field := range []struct {
		name  string
		value float64
	}{{"pods", m.Pods}, {"nodes", m.Nodes}, {"rps", m.RPS}, {"waypoints", m.Waypoints}} {
		sets = append(sets, "sizing."+field.name+"="+strconv.FormatFloat(field.value, 'f', -1, 64))
	}
	run, err := restate(run, sets)
	if err != nil {
		return nil, err
	}
	f, err := analyses.All().Analyze(run)
	if err == nil && len(f.Sizings) == 0 {
		err = noSizing(run.Header.RunID)
	}
	if err != nil {
		return nil, err
	}
	var out []assess.Modes
	for _, z := range f.Sizings {
		out = append(out, assess.Modes{Run: f.Run, Study: f.Study, Machine: fmt.Sprintf("%s, %d CPUs", f.Machine.CPUModel, f.Machine.CPUs), Parts: f.Parts, Sizing: z})
	}
	return out, nil
}

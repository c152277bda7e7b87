package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/sizing"
	"github.com/meshtrial/meshtrial/study"
)

// concluded is [Assessment.conclude] until ctx ends: the capacity model simulates the mesh.
func (o Assessment) concluded(ctx context.Context, e assess.Evidence, runs []measuredRun) (assess.Assessment, error) {
	var a assess.Assessment
	err := Computing(ctx, func() (err error) {
		a, err = o.conclude(e, runs)
		return err
	})
	if err != nil {
		return assess.Assessment{}, err // a may still be written
	}
	return a, nil
}

// conclude assesses evidence, with what runs say of the mesh that it is of.
func (o Assessment) conclude(e assess.Evidence, runs []measuredRun) (assess.Assessment, error) {
	e.Prices, e.Istiod = o.Prices, cmp.Or(e.Istiod, e.OneIstiod())
	shipped := len(o.Runs) == 0
	sizings := slices.DeleteFunc(slices.Clone(runs), func(run measuredRun) bool { return !sizes(run.Run) })
	e.Runs = len(sizings)
	for _, run := range runs {
		if len(run.latency) == 0 && !sizes(run.Run) {
			return assess.Assessment{}, noSizing(run.Header.RunID)
		}
		for _, l := range run.latency {
			l.Shipped, l.Lacking = shipped, slices.DeleteFunc(slices.Clone(run.Header.Components), func(c record.Component) bool {
				return len(c.Lacks) == 0 || c.Name != "envoy" && c.Name != "ztunnel"
			})
			e.Latency = append(e.Latency, l)
		}
		if of := istiodOf(run.Run); of != "" && e.Istiod != "" && !assess.SameVersion(of, e.Istiod) {
			e.Unknown = append(e.Unknown, assess.OtherBuild.Of(run.Header.RunID, of, e.Istiod))
		}
	}
	a := assess.Assess(e)
	for _, run := range sizings {
		modes, err := modesOf(run.Run, a)
		if err != nil {
			return a, err
		}
		for i := range modes {
			modes[i].Shipped = shipped
		}
		e.Modes = append(e.Modes, modes...)
	}
	if e.Model = o.Model; e.Model == nil && o.Section == "" {
		var err error
		if e.Model, err = shippedModel(); err != nil {
			return a, err
		}
		e.ModelShipped = true
	}
	return assess.Assess(e), nil
}

// modesOf is what a run says of the ways to carry the requests of a mesh, and of each namespace that might move alone.
func modesOf(run record.Run, a assess.Assessment) (modes []assess.Modes, err error) {
	if stated, lacks := a.Stated(); lacks == "" {
		if modes, err = sized(run, stated); err != nil {
			return nil, err
		}
	}
	for _, n := range a.Moves() {
		stated, _ := n.Stated()
		of, err := sized(run, stated)
		if err != nil {
			return nil, err
		}
		for i, m := range of { // by the run's other factors, in one order
			if len(modes) == i { // the mesh as a whole is not known
				m.Sizing = record.Sizing{Cell: m.Sizing.Cell}
				modes = append(modes, m)
			}
			modes[i].Namespaces = append(modes[i].Namespaces, assess.NamespaceSizing{Namespace: n.Name, Sizing: of[i].Sizing})
		}
	}
	return modes, nil
}

// sizes reports whether a run was made to size meshes.
func sizes(run record.Run) bool {
	s, err := study.ParseStored(run.StudyYAML, "the run's study.yaml", nil)
	return err == nil && s.Sizing != nil
}

// latencyOf is what proxies added to the latency of requests in a run.
func latencyOf(run record.Run) (out []assess.Latency, err error) {
	f, err := analyses.All().Analyze(run)
	if err != nil {
		return nil, err
	}
	for _, x := range f.Findings {
		at, carried := study.FamilyLatency+"_", x.Cell[study.FactorSidecars]
		rate, err := strconv.ParseFloat(x.Cell[study.FactorRate], 64)
		if err != nil || rate <= 0 || x.Against == nil || x.Against[study.FactorSidecars] != study.SidecarsNone || carried == study.SidecarsNone || study.Outside(x.Cell) || x.Verdict == record.VerdictInvalid {
			continue
		}
		i := slices.IndexFunc(out, func(l assess.Latency) bool { return l.Cell.Key() == x.Cell.Key() })
		if i < 0 {
			i = len(out)
			out = append(out, assess.Latency{Run: f.Run, Machine: machineOf(f), Cell: x.Cell, Rate: rate})
		}
		p := record.PricedOf(x)
		switch x.Name {
		case at + record.Quantile(0.5).Name() + finding.Overhead:
			out[i].P50 = &p
		case at + record.Quantile(0.99).Name() + finding.Overhead:
			out[i].P99 = &p
		}
	}
	return slices.DeleteFunc(out, func(l assess.Latency) bool { return l.P50 == nil && l.P99 == nil }), nil
}

func machineOf(f record.Findings) string {
	return fmt.Sprintf("%s, %d CPUs", f.Machine.CPUModel, f.Machine.CPUs)
}

// unitCosts are the runs that are given, or else those that ship.
func (o Assessment) unitCosts(ctx context.Context) (runs []measuredRun, err error) {
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
		out = append(out, assess.Modes{Run: f.Run, Study: f.Study, Machine: machineOf(f), Parts: f.Parts, Sizing: z})
	}
	return out, nil
}

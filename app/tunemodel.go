package app

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// ExpectedBy returns an override of a study's tune section that holds what a capacity model
// expects of each cell. The model ignores levers that it does not know, such as Sidecars. labKind
// is where the study runs: the CPUs of a user's nodes are unknown.
func ExpectedBy(m *model.Model, labKind string, s *study.Study) (string, error) {
	if s.Tune == nil {
		return "", errs.WithHint(errs.Usage("--model requires a study with a tune section, and %s has none", s.Name), "--set tune.objectives=[convergence] adds one (docs/tuning.md)")
	}
	plan, err := CheckedPlan(s, max(s.Seed, 1))
	if err != nil {
		return "", err
	}
	values, err := m.Values()
	if err != nil {
		return "", errs.WithCode(err, errs.CodeUsage)
	}
	cpus := float64(runtime.NumCPU())
	if labKind == lab.KindCluster {
		cpus = 0
	}
	names := []string{"convergence_p99", "convergence_p50", "pushes_per_change", "pushes"}
	by := map[string][]string{}
	simulated := map[string][]float64{} // by mesh: cells that are equal to the model share an entry
	for _, cell := range plan.Cells {
		mesh, changes, err := meshOfCell(s, cell, cpus)
		if err != nil {
			return "", errs.WithHint(err, "omit --model")
		}
		key := fmt.Sprintf("%+v", mesh)
		if simulated[key] == nil {
			r, err := values.Simulate(mesh, 1)
			if err != nil {
				return "", errs.WithHint(errs.WithCode(fmt.Errorf("cell %s cannot be simulated: %w", plan.Label(cell), err), errs.CodeUsage), "omit --model")
			}
			out := map[string]float64{}
			for i, v := range values.Simulated(mesh, r) {
				out[model.Outputs[i].Name] = v
			}
			each := out[model.OutPushesPerChange]
			simulated[key] = []float64{1e6 * out[model.OutConvergenceP99], 1e6 * out[model.OutConvergenceP50], each, each * changes}
		}
		for i, name := range names {
			by[name] = append(by[name], strconv.FormatFloat(fourFigures(simulated[key][i]), 'f', -1, 64))
		}
	}
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf("{finding: %s, values: [%s]}", name, strings.Join(by[name], ", ")))
	}
	return "tune.expected=[" + strings.Join(out, ", ") + "]", nil
}

// fourFigures rounds v to four significant figures, the precision of the model.
func fourFigures(v float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return out
}

// meshOfCell returns a cell as a mesh of the capacity model, and the number of changes that a
// trial makes. cpus is the number of CPUs of the machine, or 0 if unknown; in that case the cell
// must set istiod's CPUs.
func meshOfCell(s *study.Study, cell record.Cell, cpus float64) (model.Mesh, float64, error) {
	known := cell.With(nil)
	for _, f := range controlplane.Levers() {
		if !f.Sets(known[f.Name]) && f.Usual != "" && known[f.Name] != study.NotApplicable {
			known[f.Name] = f.Usual
		}
	}
	l, err := controlplane.LevelsOf(known)
	if err != nil {
		return model.Mesh{}, 0, err
	}
	m := model.Default()
	m.Proxies, m.Services = max(1, l.Connected()), l.Services+l.ServiceEntries
	m.Replicas, m.Cores = max(1, l.IstiodReplicas), cpus
	if v, err := strconv.Atoi(known[controlplane.FactorPushThrottle]); err == nil {
		m.Throttle = v
	}
	cpu, ok := leverNumber(controlplane.FactorIstiodCPU, known)
	switch {
	case ok && cpus > 0:
		m.Cores = math.Min(cpus, cpu)
	case ok:
		m.Cores = cpu
	case cpus == 0:
		return m, 0, errs.Usage("the number of CPUs istiod has in a cluster is unknown before a trial, and convergence depends on it: give each cell the lever %s", controlplane.FactorIstiodCPU)
	}
	m.DebounceAfter, m.DebounceMax, m.DirectEndpoints = l.DebounceAfter.Seconds(), l.DebounceMax.Seconds(), !l.EDSDebounce
	m.Rate, m.Mix, m.ConnectionAge = meanRate(l.ChangeRate), map[string]float64{}, 0
	for kind := range strings.SplitSeq(known[controlplane.FactorChange], "+") {
		if _, ok := model.KindOf(kind); ok {
			m.Mix[kind]++
		}
	}
	if len(m.Mix) == 0 {
		return m, 0, errs.Usage("the model does not cover the change %s", known[controlplane.FactorChange])
	}
	changes := float64(controlplane.Of(s).Changes)
	if changes == 0 {
		changes = math.Max(1, controlplane.Of(s).Duration.Seconds()*m.Rate)
	}
	m.Horizon = math.Max(60, changes/m.Rate)
	return m, changes, nil
}

// meanRate returns the mean number of changes per second.
func meanRate(r controlplane.ChangeRate) float64 {
	sum, seconds := 0.0, 0.0
	for _, p := range r.Parts {
		if p.For == 0 {
			return p.To
		}
		sum, seconds = sum+(p.From+p.To)/2*p.For.Seconds(), seconds+p.For.Seconds()
	}
	return sum / seconds
}

func leverNumber(factor string, cell record.Cell) (float64, bool) {
	f, ok := controlplane.LeverByName(factor)
	if !ok {
		return 0, false
	}
	return f.Value(cell[factor])
}

package plan

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	"sigs.k8s.io/yaml"
)

// made returns a model of only assumed parameters, with the relevant ones set to those of
// a small istiod.
func made() *model.Model {
	m := &model.Model{Schema: model.Schema, Mix: map[string]float64{model.MixEndpoints: 9, model.MixConfiguration: 1},
		Measured: model.Span{Proxies: [2]float64{50, 300}, Services: [2]float64{50, 300}, Rate: [2]float64{0.5, 6}}}
	v := model.Assumed()
	v[model.CPUPerServiceOf(push.RDS)], v[model.BytesPerServiceOf(push.RDS)] = 5e-6, 500
	for i, d := range model.Definitions {
		m.Parameters = append(m.Parameters, model.Fitted{Name: d.Name, Unit: d.Unit, Meaning: d.Meaning, Interval: model.Interval{Estimate: v[i], Low: v[i], High: v[i]}})
	}
	for _, o := range model.Outputs {
		m.Residuals = append(m.Residuals, model.Residual{Output: o.Name, Spread: 0.05, Cells: 6})
	}
	return m
}

const meshFile = `# a mesh
proxies: 400
services: 400
visible: 50%
changes: {rate: 0.5, arrival: poisson, mix: {endpoints: 9, virtualservice: 1}}
targets: {convergence_p99: 5s, cpu: 70%, survives: 1, reconnect: 5m, growth: 2}
istiod: {min_replicas: 2, max_replicas: 8, max_cores: 8, debounce_after: 200ms, push_throttle: 50}
`

func TestParse(t *testing.T) {
	r, err := Parse([]byte(meshFile), "mesh.yaml")
	must.OK(t, err)
	m := r.Mesh
	if m.Proxies != 400 || m.Services != 400 || m.Visible != 0.5 || m.Rate != 0.5 || m.Mix["virtualservice"] != 1 || m.DebounceAfter != 0.2 || m.DebounceMax != 10 ||
		m.Throttle != 50 || m.DirectEndpoints || r.Targets.Reconnect != 300 || r.Targets.CPU != 0.7 || r.Bounds.MaxCores != 8 {
		t.Errorf("%+v", r)
	}
}

// Errors name the field and, if it is invalid itself, its position.
func TestParseErrors(t *testing.T) {
	const mesh = "proxies: 5\nservices: 1\n"
	for _, test := range []struct{ text, want string }{
		{"", "mesh.yaml: proxies is missing"},
		{"proxies: 5\n", "services is missing"},
		{"proxies: many\nservices: 1\nchanges: {rate: 1}\n", "mesh.yaml:1:10: proxies: "},
		{"proxies: 5.5\nservices: 1\nchanges: {rate: 1}\n", "mesh.yaml:1:10: proxies: "},
		{"Proxies: 5\nservices: 1\nchanges: {rate: 1}\n", `mesh.yaml:1:1: unknown field "Proxies"`},
		{mesh + "changes: {rate: 0}\n", "mesh.yaml: changes.rate is 0: must be from 0.0001"},
		{mesh + "changes: {rte: 1}\n", `mesh.yaml:3:11: unknown field "rte": did you mean`},
		{mesh + "changes: {rate: 1, mix: {endpoint: 1}}\n", `mesh.yaml:3:26: unknown field "endpoint": did you mean endpoints`},
		{mesh + "changes: {rate: 1, mix: {endpoints: few}}\n", "mesh.yaml:3:"},
		{mesh + "changes: {rate: 1}\ntarget: {cpu: 5%}\n", `mesh.yaml:4:1: unknown field "target"`},
		{mesh + "changes: {rate: 1}\ntargets: {cpu: 500%}\n", "targets.cpu is 5"},
		{mesh + "changes: {rate: 1}\nvisible: some\n", "mesh.yaml:4:10: visible: "},
		{mesh + "changes: {rate: 1}\nistiod: {debounce_after: 5}\n", "mesh.yaml:4:26: istiod.debounce_after: "},
		{mesh + "changes: [1]\n", "mesh.yaml:3:10: changes: "},
		{mesh + "changes: {rate: [1]}\n", "mesh.yaml:3:17: changes.rate: "},
		{mesh + "changes.rate: 1\n", "mesh.yaml:3:1: unknown field"},
		{"- proxies\n", "mesh.yaml:1:"},
		{mesh + "changes: {rate: 1}\n---\nproxies: 6\n", "mesh.yaml:5:"},
		{mesh + "changes: {rate: 1}\nproxies: 6\n", "mesh.yaml:4:1: "},
		{mesh + "changes: {rate: 1}\nistiod: {min_replicas: 9, max_replicas: 2}\n", "fewer than min_replicas"},
		{mesh + "changes: {rate: 1}\nistiod: {max_replicas: 2}\ntargets: {survives: 2}\n", "none would be left"},
		{"proxies: [\n", "mesh.yaml:"},
		{mesh + "changes: {rate: 1}\nistiod: {max_cores: 0.25}\n", "istiod.max_cores is 0.25: must be from 0.5 to 64"},
		{mesh + "changes: {rate: 1, mix: {endpoints: 0}}\n", "changes.mix has no kind of change"},
	} {
		_, err := Parse([]byte(test.text), "mesh.yaml")
		if err == nil || !strings.Contains(err.Error(), test.want) || errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%q: %v, want %s, with a hint", test.text, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(meshFile))
	f.Add([]byte("proxies: 5\nservices: 1\nchanges: {rate: 1, mix: {endpoints: 1}}\n"))
	f.Add([]byte("{proxies: [1, 2], targets: null, changes: {mix: {a: {b: c}}}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data, "mesh.yaml")
		if err != nil {
			if errs.Code(err) != errs.CodeUsage {
				t.Fatalf("%v has code %d", err, errs.Code(err))
			}
			return
		}
		if r.Mesh.Mix == nil {
			r.Mesh.Mix = map[string]float64{model.MixEndpoints: 1}
		}
		if err := r.Mesh.Check(); err != nil {
			t.Fatalf("what was read cannot be predicted: %v", err)
		}
	})
}

func planned(t *testing.T, m *model.Model, text string) *Plan {
	t.Helper()
	r, err := Parse([]byte(text), "mesh.yaml")
	must.OK(t, err)
	p, err := Make(m, r, 1)
	must.OK(t, err)
	return p
}

// A plan meets its targets while a replica is away, gives a reason for every value, and
// uses more for more.
func TestMake(t *testing.T) {
	p := planned(t, made(), meshFile)
	if p.Replicas < 2 || p.Replicas > 8 || p.MaxReplicas < p.Replicas || p.CPURequest > p.Cores || p.MemoryLimit <= p.MemoryRequest {
		t.Errorf("%+v", p)
	}
	if p.Lost == nil || p.Lost.Mesh.Replicas != p.Replicas-1 || !p.Lost.KeepsUp || p.Lost.Output(model.OutConvergenceP99).High > 5 || p.Loss == nil || p.Loss.All > 300 {
		t.Errorf("while a replica is away: %+v, %+v", p.Lost, p.Loss)
	}
	text := p.YAML()
	for _, want := range []string{"autoscaleMin: ", "autoscaleMax: ", "targetAverageUtilization: 70", "    cpu: ", "    memory: ", "p99 of convergence", "Sidecar scope", "Risk: "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	var values struct {
		AutoscaleMin int               `json:"autoscaleMin"`
		Env          map[string]string `json:"env"`
	}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil || values.AutoscaleMin != p.Replicas {
		t.Errorf("the chart reads %+v (%v)", values, err)
	}
	if len(values.Env) != 2 || values.Env["PILOT_DEBOUNCE_AFTER"] != "200ms" || values.Env["PILOT_PUSH_THROTTLE"] != "50" {
		t.Errorf("what is predicted is of an istiod with settings that the values leave out: %v", values.Env)
	}
	q := planned(t, made(), strings.Replace(meshFile, "proxies: 400", "proxies: 1600", 1))
	if q.Cores*float64(q.Replicas) < p.Cores*float64(p.Replicas) || q.MemoryRequest*float64(q.Replicas) < p.MemoryRequest*float64(p.Replicas) {
		t.Errorf("four times as many proxies take %d replicas of %g cores after %d of %g", q.Replicas, q.Cores, p.Replicas, p.Cores)
	}
}

// If growth takes memory but no CPU, the autoscaler does not react and replicas hit their
// limit: that is reported.
func TestGrowthTakesMemory(t *testing.T) {
	warned := func(growth int) bool {
		text := fmt.Sprintf("proxies: 400\nservices: 20\nchanges: {rate: 0.01, mix: {endpoints: 1}}\ntargets: {growth: %d, convergence_p99: 30s}\n", growth)
		return slices.ContainsFunc(planned(t, made(), text).Warnings, func(w Warning) bool { return w.Code == WarnMemory })
	}
	if !warned(10) {
		t.Error("ten times as many proxies take as much memory as these")
	}
	if warned(1) {
		t.Error("the mesh as it is takes more than its limit")
	}
}

// What a plan says about its size meets the target, however few draws let the size pass.
func TestPlanMeetsWhatItTells(t *testing.T) {
	const small = "proxies: 50\nservices: 20\nchanges: {rate: 0.1, mix: {endpoints: 1}}\ntargets: {convergence_p99: 1h, growth: 1}\nistiod: {max_replicas: 3, max_cores: 1}\n"
	m := made()
	for seed := range uint64(6) {
		r, err := Parse([]byte(small), "mesh.yaml")
		must.OK(t, err)
		loose, err := Make(m, r, seed+1)
		must.OK(t, err)
		// A little less than the smallest size reports.
		r.Targets.ConvergenceP99 = 0.98 * loose.Lost.Output(model.OutConvergenceP99).High
		p, err := Make(m, r, seed+1)
		var none *ErrNone
		switch {
		case errors.As(err, &none):
		case err != nil:
			t.Fatal(err)
		case p.Lost.Output(model.OutConvergenceP99).High > r.Targets.ConvergenceP99:
			t.Errorf("seed %d: p99 is %+v", seed+1, p.Lost.Output(model.OutConvergenceP99))
		}
	}
}

// Levers report what was predicted.
func TestLeversSayWhat(t *testing.T) {
	p := planned(t, made(), strings.NewReplacer("debounce_after: 200ms", "debounce_after: 2s", "push_throttle: 50", "push_throttle: 300",
		"convergence_p99: 5s", "convergence_p99: 30s").Replace(meshFile))
	for _, l := range p.Levers {
		if l.Code == LeverDebounce && l.Value != 4 || l.Code == LeverThrottle && l.Value != 600 {
			t.Errorf("%+v", l)
		}
	}
	if len(p.Levers) != 3 {
		t.Errorf("%+v", p.Levers)
	}
}

// If no size within the bounds suffices, the plan says so, and how close the largest
// comes.
func TestMakeNone(t *testing.T) {
	r := Default()
	r.Mesh.Proxies, r.Mesh.Services, r.Mesh.Rate = 20_000, 5000, 5
	r.Bounds = Bounds{MinReplicas: 1, MaxReplicas: 2, MaxCores: 1}
	r.Mesh.Mix = map[string]float64{model.MixConfiguration: 1}
	_, err := Make(made(), r, 1)
	var none *ErrNone
	if !errors.As(err, &none) || none.Closest.Replicas != 2 || none.Closest.Cores != 1 {
		t.Errorf("%v", err)
	}
}

// A mesh with fewer changes than were measured is not outside the range because of that,
// and gets no more memory for it.
func TestQuietPlan(t *testing.T) {
	m := made()
	m.Residuals = nil // the widest intervals
	p := planned(t, m, "proxies: 200\nservices: 100\nchanges: {rate: 0.001, mix: {endpoints: 1}}\ntargets: {convergence_p99: 1h, growth: 1}\n")
	below := slices.ContainsFunc(p.Lost.Below, func(r model.Respect) bool { return r.Code == model.RespectRate })
	if p.Lost.Extrapolates() || !below {
		t.Error(p.YAML())
	}
	if p.MemoryRequest > 1<<30 {
		t.Errorf("200 proxies get %.0f MB", p.MemoryRequest/1e6)
	}
}

// The request achieves the CPU target as its reason states: at the upper end of the
// prediction, which is at most what is available. The plan says if it comes from the
// limit.
func TestRequestLeavesTheTarget(t *testing.T) {
	m := made()
	for i := range m.Residuals {
		m.Residuals[i].Spread = 0.7
	}
	p := planned(t, m, "proxies: 600\nservices: 100\nchanges: {rate: 1, mix: {endpoints: 1}}\ntargets: {convergence_p99: 1h, cpu: 60%}\n")
	if used := p.Prediction.Output(model.OutCPU).High; used > 0.6*p.CPURequest*float64(p.Replicas)+1e-9 || p.CPURequest > p.Cores {
		t.Errorf("up to %.3g cores are used of %d requests for %g each", used, p.Replicas, p.CPURequest)
	}
}

// A plan warns by its worst prediction: with replicas away, and after growth.
func TestPlanWarnsByTheWorst(t *testing.T) {
	p := planned(t, made(), "proxies: 600\nservices: 100\nchanges: {rate: 1, mix: {endpoints: 1}}\ntargets: {convergence_p99: 1m, growth: 50}\nistiod: {max_replicas: 2}\n")
	if p.Prediction.Extrapolates() || p.Lost.Times != 2 || p.Grown.Times != 100 {
		t.Errorf("%g, %g, %g times beyond", p.Prediction.Times, p.Lost.Times, p.Grown.Times)
	}
	text := p.YAML()
	if exponents := regexp.MustCompile(`[0-9]e[+-][0-9]`).FindAllString(text, -1); exponents != nil {
		t.Errorf("there are exponents %v in\n%s", exponents, text)
	}
}

// The age of connections is a value of the chart.
func TestPlanSetsConnectionAge(t *testing.T) {
	const text = "proxies: 100\nservices: 100\nchanges: {rate: 1, mix: {endpoints: 1}}\ntargets: {convergence_p99: 1m}\n"
	for age, want := range map[string]string{"10m": "\nkeepaliveMaxServerConnectionAge: 10m\n", "0s": "\nkeepaliveMaxServerConnectionAge: 0s\n", "90m": "\nkeepaliveMaxServerConnectionAge: 1h30m\n"} {
		if got := planned(t, made(), text+"istiod: {connection_age: "+age+"}\n").YAML(); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if got := planned(t, made(), text).YAML(); strings.Contains(got, "keepaliveMax") {
		t.Errorf("what is as installed is set:\n%s", got)
	}
}

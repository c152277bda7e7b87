package plan

import (
	"regexp"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

func planned(t *testing.T, m *model.Model, text string) *Plan {
	t.Helper()
	r, err := Parse([]byte(text), "mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(m, r, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A mesh with fewer changes than were measured lies beyond nothing by that, and is given
// no more memory for it.
func TestQuietPlan(t *testing.T) {
	m := made()
	m.Residuals = nil // the widest intervals
	p := planned(t, m, "proxies: 200\nservices: 100\nchanges: {rate: 0.001, mix: {endpoints: 1}}\ntargets: {convergence_p99: 1h, growth: 1}\n")
	if text := p.YAML(); p.Lost.Extrapolates() || strings.Contains(text, "beyond") || !strings.Contains(text, "changes per second: 0.001 is below 0.5 to 6") {
		t.Error(text)
	}
	if p.MemoryRequest > 1<<30 {
		t.Errorf("200 proxies get %.0f MB", p.MemoryRequest/1e6)
	}
}

// The request leaves the CPU target where its reason says so: at the upper end of what is
// predicted, which is no more than there is. What is taken from the limit is said.
func TestRequestLeavesTheTarget(t *testing.T) {
	m := made()
	for i := range m.Residuals {
		m.Residuals[i].Spread = 0.7
	}
	p := planned(t, m, "proxies: 600\nservices: 100\nchanges: {rate: 1, mix: {endpoints: 1}}\ntargets: {convergence_p99: 1h, cpu: 60%}\n")
	if used := p.Prediction.Output(model.OutCPU).High; used > 0.6*p.CPURequest*float64(p.Replicas)+1e-9 || p.CPURequest > p.Cores {
		t.Errorf("up to %.3g cores are used of %d requests for %g each", used, p.Replicas, p.CPURequest)
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(p.YAML(), "#", "")), " ")
	for _, want := range []string{"at the upper end the request leaves the target of 60%", "each with the CPUs of its limit"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if said := strings.Contains(text, "only the request is guaranteed"); said != (p.CPURequest < p.Cores) {
		t.Errorf("of a limit of %g only %g is guaranteed: %s", p.Cores, p.CPURequest, text)
	}
}

// A plan warns by the worst of what it goes by: replicas that are away, and growth.
func TestPlanWarnsByTheWorst(t *testing.T) {
	p := planned(t, made(), "proxies: 600\nservices: 100\nchanges: {rate: 1, mix: {endpoints: 1}}\ntargets: {convergence_p99: 1m, growth: 50}\nistiod: {max_replicas: 2}\n")
	text := p.YAML()
	if p.Prediction.Extrapolates() || !strings.Contains(text, "this mesh lies 2 times beyond") || !strings.Contains(text, "proxies of a replica: 600 is 2 times beyond") {
		t.Errorf("with both replicas it lies %g times beyond, with one %g:\n%s", p.Prediction.Beyond, p.Lost.Beyond, text)
	}
	if !strings.Contains(text, "what 50 times as many proxies take, 100 times beyond what was measured") {
		t.Errorf("30,000 proxies on one replica lie %g times beyond:\n%s", p.Grown.Beyond, text)
	}
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

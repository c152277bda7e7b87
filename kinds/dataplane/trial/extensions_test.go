package trial

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// filtersPlan returns a study's plan with a user-defined EnvoyFilter.
func filtersPlan(t *testing.T) *study.Plan {
	t.Helper()
	s, err := study.Parse([]byte(`
name: a
question: b
factors: {filters: [none, tracing, envoyfilter-mine+jwt-token]}
envoy_filters: {mine: {inline: '{"configPatches": [{"applyTo": "CLUSTER"}]}'}}
`), "a.yaml", nil)
	must.OK(t, err)
	plan, err := study.NewPlan(s, 1)
	must.OK(t, err)
	return plan
}

// TestRefusedExtension: cells whose EnvoyFilter is not active have invalid trials that say why;
// others are measured.
func TestRefusedExtension(t *testing.T) {
	plan := filtersPlan(t)
	d := &deployed{topology: newTopology("ns", plan), workers: map[dataplane.Variant]*workerRole{}}
	for v, w := range d.servers {
		d.workers[v] = &workerRole{Workload: w}
		if len(w.Extensions) > 0 {
			d.workers[v].extended = map[string]mesh.Extended{"mine": {Problem: "no such filter"}}
		}
	}
	for _, cell := range plan.Cells {
		refused := d.refused(runner.Job{Cell: cell})
		if !dataplane.HasPart(cell[dataplane.FactorFilters], dataplane.PartEnvoyFilter) {
			if refused != nil {
				t.Errorf("cell %s is refused: %+v", cell.Key(), refused)
			}
			continue
		}
		want := record.Check{Name: "server-envoyfilter-mine", Detail: "no such filter"}
		if len(refused) != 1 || refused[0] != want {
			t.Errorf("cell %s: %+v, expected %+v", cell.Key(), refused, want)
		}
	}
	if said := d.unextended(); len(said) != 1 || !strings.Contains(said[0], "envoyfilter-mine is not active") || !strings.Contains(said[0], "no such filter") {
		t.Errorf("the run says %q", said)
	}
	for _, w := range d.workers {
		for name := range w.extended {
			w.extended[name] = mesh.Extended{}
		}
	}
	if said := d.unextended(); len(said) != 0 {
		t.Errorf("the run says %q of what is in force", said)
	}
}

// TestSink: a workload without a sidecar receives the spans.
func TestSink(t *testing.T) {
	top := newTopology("ns", filtersPlan(t))
	if top.sink == nil || top.sink.Proxy != nil {
		t.Fatalf("the sink is %+v", top.sink)
	}
	found := 0
	for _, w := range top.workloads() {
		if w.Name == mesh.SinkName {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d sinks", found)
	}
}

// TestHeadersOfParts: the token goes with all requests, and only if a cell has it.
func TestHeadersOfParts(t *testing.T) {
	for name, tt := range map[string]struct {
		mesh mesh.Mesh
		want int
	}{"istio": {&istio.Mesh{}, 1}, "none": {none.Mesh{}, 0}} {
		d := &deployed{o: &runner.Options{Mesh: tt.mesh}, topology: newTopology("ns", filtersPlan(t))}
		if err := d.setHeaders(); err != nil || len(d.headers) != tt.want {
			t.Errorf("%s: headers %v (%v)", name, d.headers, err)
		}
	}
}

func TestRefusal(t *testing.T) {
	kind := schema.GroupKind{Group: "networking.istio.io", Kind: "EnvoyFilter"}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewInvalid(kind, "a", nil), true},
		{apierrors.NewBadRequest("unknown field"), true},
		{errors.New(`admission webhook "validation.istio.io" denied the request`), true},
		{apierrors.NewServiceUnavailable("later"), false},
		{errors.New("connection refused"), false},
	} {
		if got := refusal(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

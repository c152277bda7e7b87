package trial

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// toldPlane is a control plane that accepts every lever and reports what it is told to.
type toldPlane struct {
	mesh.ControlPlane
	says    []record.Check
	applied string // debounce_after
}

func (p *toldPlane) Apply(_ context.Context, l mesh.Levers, _ bool) (mesh.Applied, error) {
	p.applied = l.Level(study.FactorDebounceAfter)
	return mesh.Applied{Restarted: true, Took: 2 * time.Second}, nil
}

func (p *toldPlane) Check(_ context.Context, l mesh.Levers, _ mesh.ControlEvidence) []record.Check {
	if l.Level(study.FactorDebounceAfter) != p.applied {
		return []record.Check{{Name: "levers", Detail: "asked for others than those that were set"}}
	}
	return p.says
}

// The replicas' reports about the cell's lever are recorded, not that it was set.
func TestDebounceIsAskedFor(t *testing.T) {
	says := []record.Check{{Name: "env", OK: true, Detail: "1s"}, {Name: "env", Detail: "is 100ms; wanted 1s"}}
	plane := &toldPlane{says: says}
	trial := &scenarioTrial{
		stage: &stage{o: &runner.Options{Control: plane}, say: func(string, ...any) {}},
		job:   runner.Job{Cell: record.Cell{study.FactorDebounceAfter: "1s"}},
	}
	must.OK(t, trial.setControl(t.Context()))
	want := &verdict.Debounce{Level: "1s", Restarted: true, Took: 2 * time.Second, Checks: says}
	if got := trial.evidence.Debounce; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if plane.applied != "1s" {
		t.Errorf("set %q", plane.applied)
	}
}

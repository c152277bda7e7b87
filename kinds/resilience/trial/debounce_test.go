package trial

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
)

// toldPlane is a control plane that takes every lever and says of itself what
// it is told to.
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

// A lever of the control plane holds if its replicas say so, not because it
// was set.
func TestDebounceIsChecked(t *testing.T) {
	good := record.Check{Name: "env", OK: true, Detail: "1s"}
	for _, c := range []struct {
		name string
		says []record.Check
		ok   bool
		want string
	}{
		{"as set", []record.Check{good, good}, true, "the cell says 1s; istiod was started anew with it, which took 2.0 s, and says so of itself"},
		{"another", []record.Check{good, {Name: "env", Detail: "is 100ms; wanted 1s"}}, false, "differs: env: is 100ms; wanted 1s"},
		{"nothing", nil, false, "says nothing of itself"},
	} {
		plane := &toldPlane{says: c.says}
		trial := &scenarioTrial{
			stage: &stage{o: &runner.Options{Control: plane}, say: func(string, ...any) {}},
			job:   runner.Job{Cell: record.Cell{study.FactorDebounceAfter: "1s"}},
		}
		if err := trial.setControl(t.Context()); err != nil {
			t.Fatal(err)
		}
		checks := trial.out.Validity.Checks
		if len(checks) != 1 || checks[0].Name != "debounce-after" || checks[0].OK != c.ok || !strings.Contains(checks[0].Detail, c.want) {
			t.Errorf("%s: %+v", c.name, checks)
		}
		if plane.applied != "1s" {
			t.Errorf("%s: set %q", c.name, plane.applied)
		}
	}
}

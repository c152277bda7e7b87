package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// actedPlane is a control plane whose new replicas are ready a few readings after an action.
type actedPlane struct {
	mesh.ControlPlane
	mu    sync.Mutex
	calls []string
	left  []mesh.ControlPod // of the old ones
	come  int
	looks int
	fails error
	never bool // never ready
}

func (p *actedPlane) Apply(_ context.Context, l mesh.Levers, fresh bool) (mesh.Applied, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf("apply replicas %s, debounce %s, fresh %v", l.Level(controlplane.FactorIstiodReplicas), l.Level(study.FactorDebounceAfter), fresh))
	return mesh.Applied{}, p.fails
}

func (p *actedPlane) Kill(ctx context.Context) error {
	if p.never {
		<-ctx.Done()
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, "kill")
	return p.fails
}

func (p *actedPlane) Pods(context.Context) ([]mesh.ControlPod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.left)
	if len(p.calls) == 0 {
		return out, nil
	}
	if p.looks++; p.looks == 2 {
		return nil, errors.New("refused once")
	}
	if p.looks > 2 {
		for i := range p.come {
			out = append(out, mesh.ControlPod{UID: fmt.Sprintf("new-%d", i)})
		}
	}
	return out, nil
}

// Each disruption affects istiod as its name says, and records when the resulting replicas were
// ready.
func TestAct(t *testing.T) {
	old := []mesh.ControlPod{{UID: "old"}}
	for name, tt := range map[string]struct {
		d    controlplane.Disruption
		left []mesh.ControlPod
		come int
		want string
	}{
		"drop":    {controlplane.Disruption{Kind: controlplane.DisruptionDrop}, old, 0, ""},
		"restart": {controlplane.Disruption{Kind: controlplane.DisruptionRestart}, nil, 1, "apply replicas 1, debounce 1s, fresh true"},
		"kill":    {controlplane.Disruption{Kind: controlplane.DisruptionKill}, nil, 1, "kill"},
		"scale":   {controlplane.Disruption{Kind: controlplane.DisruptionScale, Replicas: 3}, old, 2, "apply replicas 3, debounce 1s, fresh false"},
	} {
		p := &actedPlane{left: tt.left, come: tt.come}
		trial := &controlTrial{c: &controlPlane{mesh: p, study: &study.Study{Section: &controlplane.Control{Aftermath: time.Minute}}}, levers: mesh.LeversOf(map[string]string{controlplane.FactorIstiodReplicas: "1", study.FactorDebounceAfter: "1s"})}
		var ready int64
		must.OK(t, trial.act(t.Context(), tt.d, old, &ready))
		if got := strings.Join(p.calls, "; "); got != tt.want || (ready > 0) != (tt.come > 0) {
			t.Errorf("%s: %q, ready at %d", name, got, ready)
		}
		if tt.want == "" {
			continue
		}
		p.calls, p.fails = nil, errors.New("no rights")
		if err := trial.act(t.Context(), tt.d, old, &ready); err == nil || !strings.Contains(err.Error(), "no rights") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An istiod that is not ready while the study watches is not an error: the trial records that.
func TestActOnIstiodThatIsNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial := &controlTrial{c: &controlPlane{mesh: &actedPlane{never: true}, study: &study.Study{Section: &controlplane.Control{Aftermath: time.Minute}}}, levers: mesh.LeversOf(nil)}
		began, ready := time.Now(), int64(0)
		if err := trial.act(t.Context(), controlplane.Disruption{Kind: controlplane.DisruptionKill}, []mesh.ControlPod{{UID: "old"}}, &ready); err != nil || ready != verdict.NotReady {
			t.Errorf("ready at %d, %v", ready, err)
		}
		if took := time.Since(began); took != time.Minute+readyGrace {
			t.Errorf("waited for %v", took)
		}
	})
}

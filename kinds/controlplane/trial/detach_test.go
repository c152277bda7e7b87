package trial

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A route that is not removed in time, after the window, is noted. The window's measurements and
// the status seen so far stay valid, and the wait ends.
func TestDetachGoesOn(t *testing.T) {
	deleted := atomic.Int32{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if deleted.Add(1) == 1 {
			w.WriteHeader(http.StatusGatewayTimeout)
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Timeout","code":504,"message":"too busy"}`)
			return
		}
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Success"}`)
	}))
	defer api.Close()
	s, cell, l := controlCell(t, "change=httproute", "control.gateway.probes=0")
	plan, err := churn.NewPlan(churnSpec(s, cell, l, "t", 1))
	must.OK(t, err)
	routes := map[string]bool{}
	for _, c := range plan.Changes {
		routes[c.Object] = true
	}
	driver, err := churn.NewDriver(&rest.Config{Host: api.URL}, plan)
	must.OK(t, err)
	controlplane.Of(s).Settle = time.Hour
	detach := func(ctx context.Context, attached int64) (*controlTrial, error) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		trial := &controlTrial{c: &controlPlane{study: s, say: func(string, ...any) {}}, plan: plan, driver: driver, attached: &attachedWatch{cancel: func() {}}}
		trial.attached.note(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"listeners": []any{map[string]any{"attachedRoutes": attached}}}}})
		return trial, trial.detach(ctx)
	}
	trial, err := detach(t.Context(), firstRoutes+1)
	if problems := trial.seen.Problems; err != nil || deleted.Load() != int32(len(routes)) || !noteRoutesLeft.In(problems) || !strings.Contains(note.Words(problems), "too busy") {
		t.Errorf("%v, after %d deletions; noted: %s", err, deleted.Load(), problems)
	}
	if a := trial.seen.Attached; a == nil || a.WithdrawnNS == 0 || len(a.Seen) != 1 || !a.Kept {
		t.Errorf("what the status said is lost: %+v", a)
	}
	trial, err = detach(t.Context(), firstRoutes)
	if a := trial.seen.Attached; err != nil || a == nil || a.Kept || len(trial.seen.Problems) > 0 {
		t.Errorf("all were taken away: %v, %+v, noted: %q", err, a, trial.seen.Problems)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if trial, err := detach(ended, firstRoutes+1); err == nil || trial.seen.Attached != nil {
		t.Errorf("a trial that was cancelled goes on: %v", err)
	}
}

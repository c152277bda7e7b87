package trial

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/worker"
	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// serving runs workers and returns connections to their control servers.
func serving(t *testing.T, n int) (apis []control.Client, names []string) {
	t.Helper()
	for i := range n {
		w, err := worker.New(worker.Options{Control: "127.0.0.1:0"})
		must.OK(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Serve(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		apis = append(apis, control.Client{BaseURL: "http://" + w.Addresses()["control"]})
		names = append(names, fmt.Sprint("bar-", i))
	}
	return apis, names
}

// In whatever order steps begin and end, none fails, and the workers always do what the steps in force
// say.
func TestAnyOrderOfSteps(t *testing.T) {
	apis, names := serving(t, 2)
	sets := []func(*control.Config){
		func(c *control.Config) { c.ResponseBytes++ },
		func(c *control.Config) { c.BurnUS++ },
		func(c *control.Config) { c.MemoryBytes++ },
	}
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var turn sync.Mutex
		steps, stands := make([]*handover, len(sets)), make([]int64, len(sets))
		for i, set := range sets {
			steps[i] = &handover{turn: &turn, names: names, apis: apis, set: set, lives: func(int) bool { return true }}
		}
		begun := map[int]bool{}
		for _, i := range rapid.Permutation([]int{0, 0, 1, 1, 2, 2}).Draw(t, "order") {
			var err error
			if stands[i] = 1 - stands[i]; begun[i] {
				err = steps[i].end(ctx)
			} else if err = steps[i].begin(ctx); err == nil {
				_, err = steps[i].prove(ctx)
			}
			begun[i] = true
			must.OK(t, err)
			for _, api := range apis {
				now, err := api.Config(ctx)
				must.OK(t, err)
				if got := []int64{now.ResponseBytes, int64(now.BurnUS), now.MemoryBytes}; !slices.Equal(got, stands) {
					t.Fatalf("a worker does %v, wanted %v", got, stands)
				}
			}
		}
	})
}

// Workers that do not answer delay a step once, whatever their number.
func TestConnectsToSilentWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		begin := time.Now()
		(&handover{apis: slices.Repeat([]control.Client{{HTTPClient: silent, BaseURL: "http://worker"}}, 3)}).connect(t.Context())
		if took := time.Since(begin); took != connectTime {
			t.Errorf("connected for %v", took)
		}
	})
}

// A worker that no longer answers does not keep a step from ending on the others.
func TestEndsBesideASilentWorker(t *testing.T) {
	apis, names := serving(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	released := make(chan struct{})
	silent := control.Client{BaseURL: apis[0].BaseURL, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		<-released
		return http.DefaultTransport.RoundTrip(r)
	})}}
	var turn sync.Mutex
	step := &handover{turn: &turn, names: names, apis: apis, set: func(c *control.Config) { c.ResponseBytes++ }, lives: func(int) bool { return true }}
	must.OK(t, step.begin(ctx))
	step.apis = []control.Client{silent, apis[1]}
	failed := make(chan error, 1)
	go func() { failed <- step.end(ctx) }()
	eventually.Holds(t, "the other worker reverts", func() bool {
		now, err := apis[1].Config(ctx)
		return err == nil && now.ResponseBytes == 0
	})
	close(released)
	must.OK(t, <-failed)
}

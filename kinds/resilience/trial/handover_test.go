package trial

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/worker"
	"github.com/meshtrial/meshtrial/drive/worker/control"
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

func always(int) bool { return true }

// A step that waits for its condition blocks no other, and gets its turn whichever step holds it.
func TestStepsOfWorkersTakeTurns(t *testing.T) {
	apis, names := serving(t, 2)
	for name, order := range map[string]string{
		"one waits while another comes and goes":   "stage b, begin b, end b, begin a, end a",
		"one begins while another is made ready":   "stage b, begin a, begin b, end a, end b",
		"one begins and ends before another":       "stage b, begin a, end a, begin b, end b",
		"one is made ready while another stands":   "begin a, stage b, end a, begin b, end b",
		"both are made ready, the second is first": "stage a, stage b, begin b, begin a, end b, end a",
	} {
		t.Run(name, func(t *testing.T) {
			turns := newTurns()
			a := newHandover(turns, names, apis, always, func(c *control.Config) { c.ResponseBytes += 7 })
			b := newHandover(turns, names, apis, always, func(c *control.Config) { c.Concurrency += 3 })
			a.passing, b.passing = true, true
			for _, does := range actions(order) {
				c := map[string]*handover{"a": a, "b": b}[does[1]]
				var err error
				switch does[0] {
				case "stage":
					err = c.stage(t.Context())
				case "begin":
					if err = c.begin(t.Context()); err == nil {
						_, err = c.prove(t.Context())
					}
				case "end":
					err = c.end(t.Context())
				}
				if err != nil {
					t.Fatalf("%v: %v", does, err)
				}
			}
			for i, api := range apis {
				if c, err := api.Config(t.Context()); err != nil || c.ResponseBytes != 0 || c.Concurrency != 0 {
					t.Errorf("worker %d: %+v, %v", i, c, err)
				}
			}
		})
	}
}

// actions parses "stage a, begin b".
func actions(order string) (out [][2]string) {
	var does, to string
	for rest := order; rest != ""; {
		if n, _ := fmt.Sscanf(rest, "%s %1s", &does, &to); n != 2 {
			panic(rest)
		}
		out = append(out, [2]string{does, to})
		rest = rest[min(len(rest), len(does)+len(to)+3):]
	}
	return out
}

// In whatever order steps are prepared, begin and end, none fails, and the workers always do what
// the steps in force say.
func TestAnyOrderOfSteps(t *testing.T) {
	apis, names := serving(t, 1)
	sets := []func(*control.Config, int64){
		func(c *control.Config, by int64) { c.ResponseBytes += by },
		func(c *control.Config, by int64) { c.BurnUS += float64(by) },
		func(c *control.Config, by int64) { c.LogRequests += int(by) },
	}
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		turns := newTurns()
		steps := make([]*handover, len(sets))
		next := make([]int, len(sets)) // 0: to be prepared, 1: to begin, 2: to end
		stands := make([]int64, len(sets))
		for i, set := range sets {
			steps[i] = newHandover(turns, names, apis, always, func(c *control.Config) { set(c, 1) })
			steps[i].passing = true
		}
		for left := []int{0, 0, 0, 1, 1, 1, 2, 2, 2}; len(left) > 0; {
			at := rapid.IntRange(0, len(left)-1).Draw(t, "at")
			i := left[at]
			left = slices.Delete(left, at, at+1)
			var err error
			switch next[i] {
			case 0:
				if rapid.Bool().Draw(t, "ahead") {
					err = steps[i].stage(ctx)
				}
			case 1:
				err, stands[i] = steps[i].begin(ctx), 1
			case 2:
				err, stands[i] = steps[i].end(ctx), 0
			}
			if err != nil {
				t.Fatalf("step %d, %d: %v", i, next[i], err)
			}
			next[i]++
			now, err := apis[0].Config(ctx)
			must.OK(t, err)
			if got := []int64{now.ResponseBytes, int64(now.BurnUS), int64(now.LogRequests)}; !slices.Equal(got, stands) {
				t.Fatalf("the worker does %v, wanted %v", got, stands)
			}
		}
	})
}

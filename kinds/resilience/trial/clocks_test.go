package trial

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Over a slow connection, a clock that is ahead by less than the measurement error is corrected
// too. A clock set during a trial shows afterwards, and one that does not answer then is reported.
func TestClocks(t *testing.T) {
	const slow = 5 * time.Millisecond // each way
	ahead := time.Millisecond
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(slow)
		now := time.Now().Add(ahead).UnixNano()
		time.Sleep(slow)
		jsonhttp.Answer(w, map[string]int64{"unix_ns": now})
	}))
	defer node.Close()
	gone := observe.Client{HTTPClient: node.Client(), BaseURL: "http://127.0.0.1:1"}
	observers := map[string]observe.Client{"a": {HTTPClient: node.Client(), BaseURL: node.URL}}
	trial := &scenarioTrial{stage: &stage{Site: &site.Site{Observers: observers}}}
	must.OK(t, trial.compareClocks(t.Context()))
	before := trial.clocks["a"]
	if before.Bound < ahead || (before.Ahead-ahead).Abs() > before.Bound || trial.stage.ahead["a"] != int64(before.Ahead) {
		t.Errorf("%v ahead, to %v; taken off: %v", before.Ahead, before.Bound, trial.stage.ahead)
	}
	ahead += time.Second
	trial.clocks["b"], observers["b"] = verdict.Clock{Bound: time.Minute}, gone
	trial.compareAgain(t.Context(), []record.ScenarioPod{{Node: "a"}, {Node: "b"}, {Node: "never asked"}, {Node: "a"}})
	if moved := trial.after["a"].Ahead - before.Ahead - time.Second; len(trial.after) != 1 || len(trial.before) != 2 || moved.Abs() > before.Bound+trial.after["a"].Bound {
		t.Errorf("before %v, after %v", trial.before, trial.after)
	}
	if told := trial.evidence.Unmeasured; len(told) != 1 || !strings.Contains(told[0], "compare clocks with node b") {
		t.Errorf("told %q", told)
	}
	if least, most, of := (verdict.Collected{Clocks: trial.before, ClocksAfter: trial.after}).Apart(); least < 0.9e6 || most < 60e6 || of != "b" {
		t.Errorf("apart by %v to %v us, of node %q", least, most, of)
	}
}

// If one of several clients is gone, its loss ended the trial, which is then repeated. If all are
// present it was something else.
func TestClientsLost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { jsonhttp.Answer(w, struct{}{}) }))
	defer server.Close()
	one := func(name, url, run string) *client {
		return &client{resident: &resident{ScenarioPod: record.ScenarioPod{Name: name}}, api: loadcontrol.NewClient(url, server.Client()), started: loadcontrol.Started{Run: run}}
	}
	there, gone := one("there", server.URL, ""), one("gone", "http://127.0.0.1:1", "")
	begun, ended := one("begun", server.URL, "r"), one("ended", "http://127.0.0.1:1", "r")
	why := errors.New("the trial failed")
	for name, c := range map[string]struct {
		all  *clients
		lost string // pod
	}{
		"not found yet":   {nil, ""},
		"all are there":   {&clients{all: []*client{there, begun}}, ""},
		"before it began": {&clients{all: []*client{there, gone}}, "gone"},
		"meanwhile":       {&clients{all: []*client{begun, ended}}, "ended"},
		"the only one":    {&clients{all: []*client{gone}}, ""},
	} {
		err := c.all.asLost(t.Context(), why)
		if !errors.Is(err, why) || errors.Is(err, hands.ErrLost) != (c.lost != "") || !strings.Contains(err.Error(), c.lost) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.all.asLost(t.Context(), nil); err != nil {
			t.Errorf("%s: a trial that did not fail: %v", name, err)
		}
	}
}

package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// onMachines returns a run of valid trials, each as "FACTOR=LEVEL PART=MACHINE..."; the
// machines of several pods of a part are joined by +, and an unknown machine has no name.
func onMachines(places []string, s *study.Study, lines ...string) *Observations {
	o := &Observations{Plan: &study.Plan{Study: s}, kind: Kind{Places: places}}
	for i, line := range lines {
		t := record.Trial{ID: fmt.Sprint(i), Cell: record.Cell{}, Nodes: map[string]record.NodeAt{}, Validity: record.Validity{Valid: true}}
		for j, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			if j == 0 {
				t.Cell[name] = value
				continue
			}
			for k, machine := range strings.Split(value, "+") {
				t.Nodes[record.OfHand(name, k)] = record.NodeAt{Name: "node-" + machine, Machine: machine}
			}
		}
		o.Run.Trials = append(o.Run.Trials, t)
	}
	return o
}

// Trials on unusual machines are left out; those that require other nodes are compared
// with their like.
func TestUnlike(t *testing.T) {
	places := []string{"placement", "simulators"}
	plain, search, tune := &study.Study{}, &study.Study{Search: []study.Search{{}}}, &study.Study{Tune: &study.Tune{}}
	for name, c := range map[string]struct {
		study  *study.Study
		trials []string
		left   string // trials
	}{
		"no nodes are known":     {plain, []string{"sidecars=none", "sidecars=both"}, ""},
		"alike":                  {plain, []string{"sidecars=none worker=m", "sidecars=both worker=m"}, ""},
		"not known":              {plain, []string{"sidecars=none worker=m", "sidecars=both worker="}, ""},
		"most":                   {plain, []string{"sidecars=none worker=n", "sidecars=none worker=m", "sidecars=both worker=m"}, "0"},
		"as many":                {plain, []string{"sidecars=none worker=n", "sidecars=both worker=m"}, "1"},
		"one part after another": {plain, []string{"s=a generator=m worker=m", "s=a generator=m worker=n", "s=a generator=m worker=n", "s=a generator=n worker=m"}, "0 3"},
		"of several pods":        {plain, []string{"s=a simulator=m+n", "s=a simulator=n+m", "s=a simulator=m+m"}, "2"},
		"istiod":                 {plain, []string{"s=a control=m", "s=b control=n", "s=b control=m"}, "1"},
		"other places":           {plain, []string{"placement=same-node worker=m", "placement=other-node worker=n", "placement=other-node worker=n"}, ""},
		"more simulators":        {plain, []string{"simulators=1 simulator=m", "simulators=4 simulator=m+n"}, ""},
		"a search's first":       {search, []string{"s=a worker=n", "s=a worker=m", "s=b worker=m"}, "1 2"},
		"a tuning's first":       {tune, []string{"s=a control=n", "s=a control=m", "s=b control=m"}, "1 2"},
		"the first that says so": {search, []string{"s=a worker=", "s=a worker=m", "s=b worker=n"}, "2"},
	} {
		o := onMachines(places, c.study, c.trials...)
		found := o.unlike()
		if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != c.left {
			t.Errorf("%s: left out %q, want %q: %v", name, got, c.left, found)
		}
		for id, checks := range found {
			if len(checks) != 1 || checks[0].OK || checks[0].Name != checkMachines || !strings.Contains(checks[0].Detail, ": on ") {
				t.Errorf("%s: trial %s: %+v", name, id, checks)
			}
		}
		o.without(found)
		says := note.Words(o.UnlikeNodes(""))
		if left := strings.Count(c.left+" ", " "); c.left != "" && !strings.Contains(says, fmt.Sprintf(". %d trials are left out for that", left)) || c.left == "" && strings.Contains(says, "left out") {
			t.Errorf("%s: it says %q", name, says)
		}
	}
	o := onMachines(nil, plain, "s=a worker=m+n", "s=a worker=m", "s=b worker=n")
	if found := o.unlike(); len(found) > 0 {
		t.Errorf("a kind whose pods are everywhere: %v", found)
	}
	if says := o.UnlikeNodes(""); len(says) != 1 || says[0].String() != "the nodes differ: node-m is m; node-n is n. In 1 of 2 cells an interval mixes different machines" {
		t.Errorf("it says %q", says)
	}
	o = onMachines(places, plain, "s=a worker=m", "s=b worker=n")
	o.Run.Trials[0].Validity.Valid = false
	if found := o.unlike(); len(found) > 0 {
		t.Errorf("a trial that is not valid is held up as usual: %v", found)
	}
}

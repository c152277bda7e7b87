package fit

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// on sets the machines of istiod and the simulated sidecars in trials of a run.
func on(run record.Run, istiod, simulators string, trials ...int) {
	for _, i := range trials {
		run.Trials[i].Nodes = map[string]record.NodeAt{}
		for part, all := range map[string]string{record.PartControl: istiod, record.PartSimulator: simulators} {
			for k, machine := range strings.Split(all, "+") {
				run.Trials[i].Nodes[record.OfHand(part, k)] = record.NodeAt{Name: fmt.Sprint("node-", k), Machine: machine}
			}
		}
	}
}

// Trials on unusual machines do not enter the model: it is that of the others alone, and names both.
func TestUnlikeMachines(t *testing.T) {
	const two = "  a: {proxies: 50, services: 50, change_rate: 2}\n  b: {proxies: 100, services: 50, change_rate: 2}\n"
	slow := truth()
	for p := range slow {
		slow[p] *= 2
	}
	plan, options := cells(t, two), Options{Seed: 1, Draws: 10}
	most := madeUp(t, truth(), plan, 3, 0.02, 1)
	want, err := Fit([]record.Run{most}, options)
	must.OK(t, err)
	beside := madeUp(t, truth(), plan, 3, 0.02, 1)
	on(beside, "m", "m", 0, 1, 2, 3, 4, 5)
	other := madeUp(t, slow, plan, 3, 0.02, 1)
	for i, machines := range [][2]string{{"n", "m"}, {"m", "n"}, {"m+n", "m"}, {"n", "m"}, {"m", "m+n"}} {
		on(other, machines[0], machines[1], i)
		trial := other.Trials[i]
		trial.ID = "other-" + trial.ID
		beside.Trials = append(beside.Trials, trial)
		for _, e := range other.Events {
			if "other-"+e.Trial == trial.ID {
				e.Trial = trial.ID
				beside.Events = append(beside.Events, e)
			}
		}
	}
	m, err := Fit([]record.Run{beside}, options)
	must.OK(t, err)
	if !reflect.DeepEqual(m.Parameters, want.Parameters) {
		t.Errorf("parameters are %+v, of the usual machine alone %+v", m.Parameters, want.Parameters)
	}
	said := fmt.Sprint(m.Notes)
	for _, l := range m.Runs[0].Left {
		said += fmt.Sprintf("; %d: %s", l.Trials, l.Why)
	}
	if m.Runs[0].Trials != 6 || m.Runs[0].Machine != "m" {
		t.Errorf("%d trials on %s", m.Runs[0].Trials, m.Runs[0].Machine)
	}
	for _, name := range []string{"5 trials on other machines", "2: istiod on n, and in most trials on m", "1: istiod on m and n,",
		"1: the simulated sidecars on n,", "1: the simulated sidecars on m and n,"} {
		if !strings.Contains(said, name) {
			t.Errorf("it lacks %q: %s", name, said)
		}
	}
	if _, left, err := Against(want, beside, model.Options{Seed: 1, Draws: 5}); err != nil || len(left) != 5 {
		t.Errorf("held against a run of machines that differ: %v, %v", left, err)
	}
	held := options
	held.HoldOut = record.Cell{"variant": "b"}
	on(most, "n", "n", 1, 3, 5)
	on(most, "m", "m", 0, 2, 4)
	if _, err := Fit([]record.Run{most}, held); err == nil || !strings.Contains(err.Error(), "no trial that can be used") {
		t.Errorf("what is held out is of another machine: %v", err)
	}
	most.Trials = most.Trials[4:]
	if _, err := Fit([]record.Run{most}, options); err == nil || !strings.Contains(err.Error(), "1 are left out: istiod on n, and in most trials on m") {
		t.Errorf("one trial of each machine: %v", err)
	}
}

// The usual machine is determined for each part; an unknown machine never counts as different.
func TestUsual(t *testing.T) {
	for name, c := range map[string]struct {
		trials []string // machine of istiod and of the simulators
		want   string
		apart  string
	}{
		"alike":          {[]string{"m n", "m n"}, "m n", ""},
		"most":           {[]string{"n n", "m n", "m n"}, "m n", "0"},
		"as many":        {[]string{"n n", "m n"}, "n n", "1"},
		"part by part":   {[]string{"m m", "m n", "m n", "n m", "n m"}, "m n", "0 3 4"},
		"not known":      {[]string{"? n", "m ?", "? ?"}, "m n", ""},
		"nothing known":  {[]string{"? ?", "? ?"}, "? ?", ""},
		"one is unknown": {[]string{"? m", "m n", "m n"}, "m n", "0"},
	} {
		var all []*Observation
		for _, line := range c.trials {
			o := &Observation{}
			o.on[0], o.on[1], _ = strings.Cut(strings.ReplaceAll(line, "?", ""), " ")
			all = append(all, o)
		}
		most := usual(all)
		if got := most[0] + " " + most[1]; got != strings.ReplaceAll(c.want, "?", "") {
			t.Errorf("%s: most were on %q", name, got)
		}
		var apart []string
		for i, o := range all {
			if o.apart(most).Code != "" {
				apart = append(apart, fmt.Sprint(i))
			}
		}
		if got := strings.Join(apart, " "); got != c.apart {
			t.Errorf("%s: apart are %q, want %q", name, got, c.apart)
		}
	}
}

package app

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// labWith writes the state of a running lab with these nodes, or of no lab if nodes is 0.
func labWith(t *testing.T, nodes int, zones ...string) {
	t.Helper()
	_, _, record := labFor(t)
	if nodes == 0 {
		must.OK(t, os.Remove(record))
		return
	}
	planned, err := local.PlannedNodes(nodes, zones)
	must.OK(t, err)
	noted(t, record, "nodes", planned)
}

// noted writes a value into the state of a lab.
func noted(t *testing.T, record, name string, value any) {
	t.Helper()
	data, err := os.ReadFile(record)
	must.OK(t, err)
	var state map[string]any
	must.OK(t, json.Unmarshal(data, &state))
	state[name] = value
	data, err = json.Marshal(state)
	must.OK(t, err)
	must.OK(t, os.WriteFile(record, data, 0o600))
}

// A run uses the running lab, unless the flags require other nodes.
func TestLocalNodes(t *testing.T) {
	for name, c := range map[string]struct {
		up      int // nodes of the running lab
		zones   []string
		options RunOptions
		want    string
		refused string
	}{
		"no lab":                         {0, nil, RunOptions{}, "lab", ""},
		"no lab, --nodes":                {0, nil, RunOptions{Nodes: 2}, "lab-1 (lab/zone-1), lab-2 (lab/zone-2)", ""},
		"no lab, --zones":                {0, nil, RunOptions{Zones: []string{"eu/a", "us/b"}}, "lab-1 (eu/a), lab-2 (us/b)", ""},
		"no lab, both":                   {0, nil, RunOptions{Nodes: 3, Zones: []string{"a", "b"}}, "lab-1 (lab/a), lab-2 (lab/b), lab-3 (lab/a)", ""},
		"more zones than nodes":          {0, nil, RunOptions{Nodes: 1, Zones: []string{"a", "b"}}, "", "2 zones are more than the lab's nodes (1)"},
		"as it is":                       {2, nil, RunOptions{}, "lab-1 (lab/zone-1), lab-2 (lab/zone-2)", ""},
		"as many as it has":              {2, nil, RunOptions{Nodes: 2}, "lab-1 (lab/zone-1), lab-2 (lab/zone-2)", ""},
		"more than it has":               {2, nil, RunOptions{Nodes: 3}, "", "the nodes of the running lab do not match --nodes and --zones: lab-1 (lab/zone-1), lab-2"},
		"several, of one":                {1, nil, RunOptions{Nodes: 3}, "", "--zones: lab"},
		"of other zones than by default": {2, []string{"a"}, RunOptions{Nodes: 2}, "lab-1 (lab/a), lab-2 (lab/a)", ""},
		"its zones":                      {2, []string{"a"}, RunOptions{Zones: []string{"lab/a"}}, "lab-1 (lab/a), lab-2 (lab/a)", ""},
		"other zones":                    {2, []string{"a"}, RunOptions{Zones: []string{"b"}}, "", "--zones: lab-1 (lab/a)"},
	} {
		t.Run(name, func(t *testing.T) {
			labWith(t, c.up, c.zones...)
			nodes, running, err := c.options.localNodes(nil)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("%v, want %q", err, c.refused)
				}
				return
			}
			if err != nil || nodeWords(nodes) != c.want || running != (c.up > 0) {
				t.Errorf("%q, running %v, %v; want %q", nodeWords(nodes), running, err, c.want)
			}
		})
	}
}

// A lab that a run starts has the nodes that the plan needs. Flags and labs that lack them are
// rejected before anything starts, with a hint.
func TestLabOfAPlacedPlan(t *testing.T) {
	const text = "name: x\nquestion: x\nmesh: none\nsettings: {sidecars: none}\nbaseline: {placement: same-node}\nfactors: {placement: [same-node, other-node, other-zone]}\n"
	for name, c := range map[string]struct {
		up      int
		zones   []string
		options RunOptions
		set     string
		want    string // the nodes; after "!", text of the error and its hint
	}{
		"all levels":             {0, nil, RunOptions{}, "", "lab-1 (lab/zone-1), lab-2 (lab/zone-2), lab-3 (lab/zone-1)"},
		"more nodes":             {0, nil, RunOptions{Nodes: 4}, "", "lab-1 (lab/zone-1), lab-2 (lab/zone-2), lab-3 (lab/zone-3), lab-4 (lab/zone-1)"},
		"zones of its own":       {0, nil, RunOptions{Zones: []string{"a", "b"}}, "", "lab-1 (lab/a), lab-2 (lab/b), lab-3 (lab/a)"},
		"one node":               {0, nil, RunOptions{Nodes: 1}, "", "!takes 3 nodes, of which 2 are in one zone and 1 in another, and there is one schedulable node: lab in no zone"},
		"two nodes":              {0, nil, RunOptions{Nodes: 2}, "", "!hint: --nodes 3, or omit the flags"},
		"one zone":               {0, nil, RunOptions{Nodes: 3, Zones: []string{"a"}}, "", "!lab-1 in zone lab/a, lab-2 in zone lab/a, lab-3 in zone lab/a"},
		"another node":           {0, nil, RunOptions{}, "placement=[same-node,other-node]", "lab-1 (lab/zone-1), lab-2 (lab/zone-2)"},
		"another node of one":    {0, nil, RunOptions{Nodes: 1}, "placement=[same-node,other-node]", "!hint: --nodes 2"},
		"another zone":           {0, nil, RunOptions{}, "placement=[same-node,other-zone]", "lab-1 (lab/zone-1), lab-2 (lab/zone-2)"},
		"the same node":          {0, nil, RunOptions{}, "placement=[same-node,as-scheduled]", "lab"},
		"a lab of one":           {1, nil, RunOptions{}, "", "!hint: `meshtrial lab down`, and the run starts a lab with enough nodes (--nodes 3)"},
		"each its zone":          {3, nil, RunOptions{}, "", "!--zones a,b"},
		"a lab that has them":    {3, []string{"a", "b"}, RunOptions{}, "", "lab-1 (lab/a), lab-2 (lab/b), lab-3 (lab/a)"},
		"each its zone, two lvl": {3, nil, RunOptions{}, "placement=[same-node,other-zone]", "lab-1 (lab/zone-1), lab-2 (lab/zone-2), lab-3 (lab/zone-3)"},
	} {
		t.Run(name, func(t *testing.T) {
			labWith(t, c.up, c.zones...)
			var sets []string
			if c.set != "" {
				sets = []string{c.set}
			}
			plan := studytest.Plan(t, text, sets...)
			err := c.options.fitsLocal(plan)
			if says, bad := strings.CutPrefix(c.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error()+"\nhint: "+errs.Hint(err), says) {
					t.Errorf("%v (%s), want %q", err, errs.Hint(err), says)
				}
				return
			}
			nodes, _, failed := c.options.localNodes(plan)
			if err != nil || failed != nil || nodeWords(nodes) != c.want {
				t.Errorf("%q, %v, %v; want %q", nodeWords(nodes), err, failed, c.want)
			}
		})
	}
}

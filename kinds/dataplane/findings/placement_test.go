package findings

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// placedTrials makes a run of trials, each as CELL CLIENT SERVER, with nodes as NAME@ZONE:MACHINE.
// Clients of several generators are joined by +.
func placedTrials(lines ...string) *analysis.Observations {
	at := func(text string) record.NodeAt {
		text, machine, _ := strings.Cut(text, ":")
		name, zone, _ := strings.Cut(text, "@")
		return record.NodeAt{Name: name, Zone: zone, Machine: machine}
	}
	o := &analysis.Observations{}
	for _, line := range lines {
		f := strings.Fields(line)
		t := record.Trial{Cell: record.Cell{study.FactorSidecars: f[0]}, Validity: record.Validity{Valid: true}}
		if len(f) > 1 {
			t.Nodes = map[string]record.NodeAt{record.PartWorker: at(f[2])}
			for i, client := range strings.Split(f[1], "+") {
				t.Hands = append(t.Hands, record.Hand{Node: at(client).Name})
				t.Nodes[record.OfHand(record.PartGenerator, i)] = at(client)
			}
		}
		if len(f) > 3 {
			t.Cell[dataplane.FactorPlacement] = f[3]
		}
		o.Run.Trials = append(o.Run.Trials, t)
	}
	return o
}

func TestScattered(t *testing.T) {
	for name, c := range map[string]struct {
		trials []string
		want   string
	}{
		"no nodes are known": {[]string{"none", "both"}, ""},
		"one node":           {[]string{"none a a", "both b b"}, ""},
		"as asked":           {[]string{"none a a same-node", "none a b other-node", "none a@x c@y other-zone"}, ""},
		"one and two":        {[]string{"none a a", "both b b", "both a b"}, "on one node in 2 and on two nodes in 1 trials"},
		"all three":          {[]string{"none a@x a@x as-scheduled", "both a@x b@x as-scheduled", "both a@x c@y as-scheduled"}, "in two zones in 1, on one node in 1 and on two nodes in 1 trials"},
		"generators apart":   {[]string{"none a+b a", "both a+b a"}, "put client and server mixed (several generators, placed differently) in 2 trials"},
		"zones of some":      {[]string{"none b@x+c@y a@x"}, "mixed"},
		"not of those asked": {[]string{"none a a", "none a b other-node"}, ""},
	} {
		if got := note.Words(scattered(placedTrials(c.trials...))); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	o := placedTrials("none a a", "both a b")
	o.Run.Trials[1].Validity.Valid = false
	if got := scattered(o); got != nil {
		t.Errorf("a trial that is not valid: %q", got)
	}
}

// A waypoint that ran sometimes next to the server and sometimes elsewhere in a cell's trials is
// reported; between cells it may differ.
func TestScatteredWaypoint(t *testing.T) {
	for name, c := range map[string]struct {
		on   []string // the waypoint's node in three trials, the first two of the same cell
		want string
	}{
		"nobody knows":  {[]string{"", "", ""}, ""},
		"between cells": {[]string{"b", "b", "c"}, ""},
		"moved":         {[]string{"b", "c", "b"}, "put the waypoint on another node in 1 and on the server's node in 1 trials of the same cells"},
		"to the client": {[]string{"a", "c", ""}, "put the waypoint on another node in 1 and on the client's node in 1 trials"},
		"to a zone":     {[]string{"b", "d@y", ""}, "put the waypoint in another zone than the server in 1 and on the server's node in 1 trials"},
	} {
		o := placedTrials("waypoint a@x b@x same-node", "waypoint a@x b@x same-node", "waypoint a@x b@x other-node")
		for i, on := range c.on {
			node, zone, _ := strings.Cut(on, "@")
			if zone == "" {
				zone = "x"
			}
			o.Run.Trials[i].Nodes[record.PartWaypoint] = record.NodeAt{Name: node, Zone: zone}
		}
		if got := note.Words(scattered(o)); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Blocks that ran on another machine than most are in no interval, and are named.
func TestMachinesAreNotPooled(t *testing.T) {
	run, left := analysistest.Simulate(t, analysistest.QuickStudy, 6, 3, analysistest.Quiet()), 0
	for i := range run.Trials {
		trial, machine := &run.Trials[i], "m"
		if trial.Block < 2 {
			machine, left = "n", left+1
		}
		at := record.NodeAt{Name: "node-" + machine, Machine: machine}
		trial.Nodes = map[string]record.NodeAt{record.PartGenerator: at, record.PartWorker: at}
	}
	f := analysistest.Analyze(t, kinds, run)
	if r := f.Validity.Reasons; f.Validity.Invalid != left || len(r) != 1 || r[0].Check != "machines" || !strings.Contains(r[0].Example, "generator: on n, and in most trials on m") {
		t.Errorf("%d of %d trials left out: %+v", f.Validity.Invalid, left, r)
	}
	if both := analysistest.Get(t, f, "latency_p50_overhead", record.Cell{study.FactorSidecars: study.SidecarsBoth}); both.Blocks != 4 {
		t.Errorf("made of %d blocks", both.Blocks)
	}
	if want := fmt.Sprintf("the nodes differ: node-m is m; node-n is n. %d trials are left out for that", left); !slices.Contains(note.Texts(f.Warnings), want) {
		t.Errorf("warnings %q", f.Warnings)
	}
}

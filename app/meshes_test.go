package app

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// Each mesh that a study can name has its adapter.
func TestAdapters(t *testing.T) {
	for _, name := range study.Meshes() {
		if adapters[name] == nil || Mesh(name, lab.Images{}).Name() != name {
			t.Errorf("mesh %s has no adapter, or another's", name)
		}
	}
	if len(adapters) != len(study.Meshes()) {
		t.Errorf("%d adapters of %d meshes", len(adapters), len(study.Meshes()))
	}
}

func TestPlanAmbient(t *testing.T) {
	for level, want := range map[string]bool{"both": false, "ambient": true, "waypoint": true} {
		plan := &study.Plan{Study: &study.Study{Mesh: "istio"}, Cells: []record.Cell{{"sidecars": "none"}, {"sidecars": level}}}
		if got := planAmbient(plan); got != want {
			t.Errorf("a plan with sidecars %s is ambient: %v", level, got)
		}
	}
}

// --ztunnel and --linkerd are for a lab that a run starts: where they would change nothing of
// what is measured, a run is refused. Without them it takes the lab that is up.
func TestFitsMeshes(t *testing.T) {
	const (
		sidecars = "name: x\nquestion: x\nfactors: {sidecars: [none, both]}\n"
		ambient  = "name: x\nquestion: x\nfactors: {sidecars: [none, both, ambient]}\n"
		linkerd  = "name: x\nquestion: x\nmesh: linkerd\nfactors: {sidecars: [none, both]}\n"
		control  = "name: x\nquestion: x\ncontrol: {}\nsettings: {ztunnels: 1}\n"
		graph    = "name: x\nquestion: x\ngraph: {services: {a: {replicas: 1, calls: [{to: b}]}, b: {replicas: 2}}}\nload: {to: a, clients: 2}\n" +
			"factors: {mesh: [none, istio]}\nbaseline: {mesh: none}\ntimeline: {duration: 5s}\nmeasures: [latency, cpu, memory]\n"
	)
	both := &lab.Images{Ztunnel: "docker.io/istio/ztunnel:1.31-old", LinkerdVersion: "edge-26.8.3"}
	for name, c := range map[string]struct {
		study      string
		up         *lab.Images // of the lab that runs
		options    RunOptions
		want, hint string // of the refusal
	}{
		"no flags":                  {ambient, both, RunOptions{}, "", ""},
		"no lab":                    {ambient, nil, RunOptions{Ztunnel: "new"}, "", ""},
		"no lab, Linkerd":           {linkerd, nil, RunOptions{Linkerd: "edge-26.8.2"}, "", ""},
		"the lab's":                 {ambient, both, RunOptions{Ztunnel: "old"}, "", ""},
		"the lab's Linkerd":         {linkerd, both, RunOptions{Linkerd: "edge-26.8.3"}, "", ""},
		"another":                   {ambient, both, RunOptions{Ztunnel: "new"}, "has ztunnel docker.io/istio/ztunnel:1.31-old, not that of --ztunnel new", "leave the flag out, to measure the lab's; or `meshtrial lab down`"},
		"another Linkerd":           {linkerd, both, RunOptions{Linkerd: "edge-26.8.2"}, "has Linkerd edge-26.8.3, not that of --linkerd edge-26.8.2", "`meshtrial lab down`"},
		"the lab has none":          {ambient, &lab.Images{}, RunOptions{Ztunnel: "new"}, "the running lab has no ztunnel, and --ztunnel new adds none to it", "`meshtrial lab down`, and the run starts a lab that has it"},
		"the lab has no Linkerd":    {linkerd, &lab.Images{}, RunOptions{Linkerd: "edge"}, "the running lab has no Linkerd, and --linkerd edge adds none to it", "`meshtrial lab down`"},
		"no such folder":            {ambient, both, RunOptions{Ztunnel: "nowhere"}, "there is nothing in nowhere", ""},
		"no such folder, no lab":    {ambient, nil, RunOptions{Ztunnel: "nowhere"}, "there is nothing in nowhere", ""},
		"no Linkerd":                {linkerd, nil, RunOptions{Linkerd: "./nowhere"}, "neither a folder nor the name of a release", ""},
		"no ambient cell":           {sidecars, nil, RunOptions{Ztunnel: "nowhere"}, "--ztunnel is for cells whose requests ztunnel carries, and the study has none", "leave it out, or --set sidecars=[none,both,ambient]"},
		"none of Linkerd":           {sidecars, both, RunOptions{Linkerd: "edge"}, "--linkerd is for cells of Linkerd, and the study has none", "leave it out, or --set mesh=linkerd"},
		"a graph without":           {graph, nil, RunOptions{Ztunnel: "new"}, "whose requests ztunnel carries", "--set sidecars=[both,ambient]"},
		"a graph without Linkerd":   {graph, nil, RunOptions{Linkerd: "edge"}, "cells of Linkerd", "--set mesh=[none,istio,linkerd]"},
		"ztunnels that are no real": {control, nil, RunOptions{Ztunnel: "new"}, "whose requests ztunnel carries", "leave it out"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, record := labFor(t)
			if c.up == nil {
				labWith(t, 0)
			} else {
				noted(t, record, "images", *c.up)
			}
			image := func(dir string) (string, error) {
				if dir == "nowhere" {
					return "", errs.Usage("there is nothing in %s", dir)
				}
				return "docker.io/istio/ztunnel:1.31-" + dir, nil
			}
			err := c.options.fitsMeshes(studytest.Plan(t, c.study), image)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), c.want) || !strings.Contains(errs.Hint(err), c.hint) {
				t.Errorf("%v, hint %q; want %q, %q", err, errs.Hint(err), c.want, c.hint)
			}
		})
	}
}

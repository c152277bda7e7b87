package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

func TestStatusOfLinkerd(t *testing.T) {
	for version, want := range map[string]bool{"edge-1": true, "": false} {
		var out bytes.Buffer
		if err := printStatus(&out, &local.Status{State: local.StateRunning, ID: "a", Images: lab.Images{LinkerdVersion: version}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "linkerd "); got != want || !strings.Contains(out.String(), version) {
			t.Errorf("version %q:\n%s", version, out.String())
		}
	}
}

func TestStatusOfNodes(t *testing.T) {
	node := func(name, zone, state string) local.NodeStatus {
		return local.NodeStatus{Node: local.Node{Name: name, Region: "eu", Zone: zone}, State: state}
	}
	status := &local.Status{State: local.StateRunning, ID: "a", Nodes: []local.NodeStatus{node("lab-1", "a", local.StateRunning), node("lab-2", "b", local.StateDead)},
		Components: []local.ComponentStatus{{Name: "etcd", PID: 2}, {Name: "node", Node: "lab-2", LastExit: "was ended by signal SIGKILL"}}}
	var out bytes.Buffer
	if err := printStatus(&out, status); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^NODE +STATE +REGION +ZONE`, `(?m)^lab-1 +running +eu +a `, `(?m)^lab-2 +dead +eu +b `, `(?m)^etcd +up for`, `(?m)^lab-2/node +down +0 +was ended`} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	status.Nodes, out = status.Nodes[:1], bytes.Buffer{}
	if err := printStatus(&out, status); err != nil || strings.Contains(out.String(), "NODE ") {
		t.Errorf("a single node has a table, or %v\n%s", err, out.String())
	}
}

// `lab status` says for whom a lab is up.
func TestStatusNamesTheRun(t *testing.T) {
	run := &procfs.Identity{PID: 7}
	for name, c := range map[string]struct {
		status local.Status
		want   string // "" for no line
	}{
		"of a dead run":      {local.Status{ForRun: run, Orphaned: true}, "a run that was killed (" + run.String() + "): the next run takes it down at its end, or meshtrial lab down"},
		"of a run under way": {local.Status{ForRun: run}, "a run (" + run.String() + "), which takes it down at its end"},
		"of nobody":          {local.Status{}, ""},
	} {
		c.status.State, c.status.ID = local.StateRunning, "a"
		var out bytes.Buffer
		if err := printStatus(&out, &c.status); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "run (") != (name == "of a run under way") {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}

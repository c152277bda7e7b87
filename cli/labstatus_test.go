package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
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

package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

func TestLabScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/lab"})
}

func TestLabMeshes(t *testing.T) {
	for _, test := range []struct {
		name, mesh     string
		from, variable string // of Linkerd
		ambient        bool
		ztunnel        string
		official       bool
		want, source   string // meshes, and where Linkerd comes from
		refused        string
	}{
		{name: "as it is", mesh: "istio", want: "istio"},
		{name: "none", mesh: "none"},
		{name: "a folder adds Linkerd", mesh: "istio", from: "dir", want: "istio linkerd", source: "dir"},
		{name: "both named", mesh: "linkerd, istio", from: "dir", want: "linkerd istio", source: "dir"},
		{name: "the variable alone adds nothing", mesh: "istio", variable: "dir", want: "istio"},
		{name: "the variable", mesh: "linkerd", variable: "dir", want: "linkerd", source: "dir"},
		{name: "the option before the variable", mesh: "linkerd", from: "a", variable: "b", want: "linkerd", source: "a"},
		{name: "official", mesh: "istio,linkerd", official: true, want: "istio linkerd", source: "edge"},
		{name: "nothing says where from", mesh: "linkerd", refused: "nothing says where it comes from"},
		{name: "unknown", mesh: "istio,consul", refused: `unknown mesh "consul"`},
		{name: "twice", mesh: "istio,istio", refused: "names istio twice"},
		{name: "none and one", mesh: "none,istio", refused: "not both"},
		{name: "empty", mesh: "", refused: `unknown mesh ""`},
		{name: "a folder with ztunnel is enough", mesh: "istio", ztunnel: "dir", want: "istio ambient"},
		{name: "ambient without Istio", mesh: "none", ambient: true, refused: "leaves it out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(app.LinkerdVariable, test.variable)
			m := app.LabMeshes{Linkerd: test.from, Ambient: test.ambient, Ztunnel: test.ztunnel}
			err := addMeshes(&m, test.mesh, test.official)
			if test.refused != "" {
				if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("%v, want a refusal that says %q", err, test.refused)
				}
				return
			}
			got := strings.Join(m.Names, " ")
			if m.Ambient {
				got += " ambient"
			}
			if err != nil || got != test.want || m.Linkerd != test.source {
				t.Errorf("%s from %q, %v, want %s from %q", got, m.Linkerd, err, test.want, test.source)
			}
		})
	}
}

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

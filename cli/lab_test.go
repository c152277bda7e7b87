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
		given          bool
		from, variable string
		set            []string
		official       bool
		want, source   string // meshes, and where Linkerd comes from
		refused        string
	}{
		{name: "as it is", mesh: "istio", want: "istio"},
		{name: "none", mesh: "none", given: true},
		{name: "a folder adds Linkerd", mesh: "istio", from: "dir", want: "istio linkerd", source: "dir"},
		{name: "both named", mesh: "linkerd, istio", given: true, from: "dir", want: "linkerd istio", source: "dir"},
		{name: "the variable alone adds nothing", mesh: "istio", variable: "dir", want: "istio"},
		{name: "the variable", mesh: "linkerd", given: true, variable: "dir", want: "linkerd", source: "dir"},
		{name: "the option before the variable", mesh: "linkerd", given: true, from: "a", variable: "b", want: "linkerd", source: "a"},
		{name: "official", mesh: "istio,linkerd", given: true, official: true, want: "istio linkerd", source: "edge"},
		{name: "nothing says where from", mesh: "linkerd", given: true, refused: "nothing says where it comes from"},
		{name: "left out", mesh: "istio", given: true, from: "dir", refused: "leaves it out"},
		{name: "settings of nothing", mesh: "istio", set: []string{"a=b"}, refused: "--linkerd-set requires --linkerd"},
		{name: "unknown", mesh: "istio,consul", given: true, refused: `unknown mesh "consul"`},
		{name: "twice", mesh: "istio,istio", given: true, refused: "names istio twice"},
		{name: "none and one", mesh: "none,istio", given: true, refused: "not both"},
		{name: "empty", mesh: "", given: true, refused: `unknown mesh ""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(app.LinkerdVariable, test.variable)
			m := app.LabMeshes{Linkerd: test.from, LinkerdSet: test.set}
			err := addMeshes(&m, test.mesh, test.given, test.official)
			if test.refused != "" {
				if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("%v, want a refusal that says %q", err, test.refused)
				}
				return
			}
			if err != nil || strings.Join(m.Names, " ") != test.want || m.Linkerd != test.source {
				t.Errorf("%v from %q, %v, want %s from %q", m.Names, m.Linkerd, err, test.want, test.source)
			}
		})
	}
}

// --ambient and --ztunnel say what is asked of Istio, and where ztunnel comes from.
func TestLabAmbient(t *testing.T) {
	for _, test := range []struct {
		name, mesh      string
		given, official bool
		ambient         bool
		from, variable  string
		want            bool
		source, refused string
	}{
		{name: "not asked for", mesh: "istio", variable: "dir"},
		{name: "a folder is enough", mesh: "istio", from: "dir", want: true, source: "dir"},
		{name: "the variable", mesh: "istio", ambient: true, variable: "dir", want: true, source: "dir"},
		{name: "the option before the variable", mesh: "istio", ambient: true, from: "a", variable: "b", want: true, source: "a"},
		{name: "official", mesh: "istio", ambient: true, official: true, variable: "dir", want: true},
		{name: "official, and a folder", mesh: "istio", from: "dir", official: true, refused: "--ztunnel requires --images built"},
		{name: "without Istio", mesh: "none", given: true, ambient: true, refused: "an ambient mesh is Istio's, but --mesh none leaves it out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(app.ZtunnelVariable, test.variable)
			m := app.LabMeshes{Ambient: test.ambient, Ztunnel: test.from}
			err := addMeshes(&m, test.mesh, test.given, test.official)
			if test.refused != "" {
				if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("%v, want a refusal that says %q", err, test.refused)
				}
				return
			}
			if err != nil || m.Ambient != test.want || m.Ztunnel != test.source {
				t.Errorf("%v from %q, %v", m.Ambient, m.Ztunnel, err)
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

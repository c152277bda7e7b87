package cli

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// upSettings parses flags of lab up as the command does.
func upSettings(args ...string) ([]string, mesh.Choices, error) {
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	which := flags.String("mesh", study.MeshIstio, "")
	m := addMeshFlags(flags, mesh.LabUp)
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	names, err := m.names(*which, flags.Changed("mesh"))
	if err != nil {
		return nil, nil, err
	}
	settings, err := app.ResolveMeshes(mesh.LabUp, names, m.given)
	return names, settings, err
}

func TestLabMeshes(t *testing.T) {
	for _, test := range []struct {
		name, args, linkerd, ztunnel string // flags, and environment variables
		want                         string // meshes, and their settings except images
		refused                      string
	}{
		{name: "as it is", want: "istio"},
		{name: "none", args: "--mesh none"},
		{name: "a folder adds Linkerd", args: "--linkerd dir", want: "istio linkerd linkerd=dir"},
		{name: "both named", args: "--mesh linkerd,istio --linkerd dir", want: "linkerd istio linkerd=dir"},
		{name: "the variable alone adds nothing", linkerd: "dir", want: "istio"},
		{name: "the variable", args: "--mesh linkerd", linkerd: "dir", want: "linkerd linkerd=dir"},
		{name: "the option before the variable", args: "--mesh linkerd --linkerd a", linkerd: "b", want: "linkerd linkerd=a"},
		{name: "official", args: "--mesh istio,linkerd --images official", want: "istio linkerd linkerd=edge"},
		{name: "settings of each", args: "--linkerd dir --set a=1,2 --set b --linkerd-set c", want: "istio linkerd set=a=1,2 b linkerd=dir set=c"},
		{name: "Envoys", args: "--envoy 1,2 --envoy 3", want: "istio envoy=1 2 3"},
		{name: "ztunnel implies an ambient mesh", args: "--ztunnel dir", want: "istio ambient=true ztunnel=dir"},
		{name: "an ambient mesh by the variable", args: "--ambient", ztunnel: "dir", want: "istio ambient=true ztunnel=dir"},
		{name: "the variable adds no ambient mesh", ztunnel: "dir", want: "istio"},
		{name: "an official ambient mesh", args: "--ambient --images official", ztunnel: "dir", want: "istio ambient=true"},
		{name: "nothing says where from", args: "--mesh linkerd", refused: "give a source"},
		{name: "left out", args: "--mesh istio --linkerd dir", refused: "does not include it"},
		{name: "settings of nothing", args: "--linkerd-set a=b", refused: "does not include it"},
		{name: "an ambient mesh without Istio", args: "--mesh none --ambient", refused: "does not include it"},
		{name: "a ztunnel for official images", args: "--ztunnel dir --images official", refused: "--ztunnel requires --images built"},
		{name: "an Envoy for official images", args: "--envoy 1 --images official", refused: "--envoy requires --images built"},
		{name: "a tag for built images", args: "--tag 1", refused: "require --images official"},
		{name: "other images", args: "--images pulled", refused: `must be built or official, not "pulled"`},
		{name: "unknown", args: "--mesh istio,consul", refused: `unknown mesh "consul"`},
		{name: "twice", args: "--mesh istio,istio", refused: "names istio twice"},
		{name: "none and one", args: "--mesh none,istio", refused: "not both"},
		{name: "empty", args: "--mesh=", refused: `unknown mesh ""`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("MESHTRIAL_LINKERD", test.linkerd)
			t.Setenv("MESHTRIAL_ZTUNNEL", test.ztunnel)
			names, settings, err := upSettings(strings.Fields(test.args)...)
			if test.refused != "" {
				if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("%v, want a refusal that says %q", err, test.refused)
				}
				return
			}
			got := names
			for _, name := range []string{study.MeshIstio, study.MeshLinkerd} {
				for _, setting := range slices.Sorted(maps.Keys(settings[name])) {
					if setting != "images" {
						got = append(got, setting+"="+strings.Join(settings[name][setting], " "))
					}
				}
			}
			if err != nil || strings.Join(got, " ") != test.want {
				t.Errorf("%q, %v, want %q", strings.Join(got, " "), err, test.want)
			}
		})
	}
}

func TestStatusOfLinkerd(t *testing.T) {
	for version, want := range map[string]bool{"edge-1": true, "": false} {
		var out bytes.Buffer
		must.OK(t, printStatus(&out, &local.Status{State: local.StateRunning, ID: "a", Images: lab.Images{Meshes: map[string]map[string]string{"linkerd": {lab.Status: version}}}}))
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
	must.OK(t, printStatus(&out, status))
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

// `lab status` says which run a lab belongs to.
func TestStatusNamesTheRun(t *testing.T) {
	run := &procfs.Identity{PID: 7}
	for name, c := range map[string]struct {
		status local.Status
		want   string // "" for no line
	}{
		"of a dead run":      {local.Status{ForRun: run, Orphaned: true}, "a run that was killed (" + run.String() + "): the next run stops it when it ends, as does meshtrial lab down"},
		"of a run under way": {local.Status{ForRun: run}, "a run (" + run.String() + "), which stops it when it ends"},
		"of nobody":          {local.Status{}, ""},
	} {
		c.status.State, c.status.ID = local.StateRunning, "a"
		var out bytes.Buffer
		must.OK(t, printStatus(&out, &c.status))
		if !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "run (") != (name == "of a run under way") {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}

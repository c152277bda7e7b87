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

// The status names the run that a lab belongs to, its meshes and, if there are several, its nodes.
func TestStatus(t *testing.T) {
	run := &procfs.Identity{PID: 7}
	status := &local.Status{State: local.StateRunning, ID: "a", ForRun: run,
		Nodes: []local.NodeStatus{{Node: local.Node{Name: "lab-1", Region: "eu", Zone: "a"}, State: local.StateRunning},
			{Node: local.Node{Name: "lab-2", Region: "eu", Zone: "b"}, State: local.StateDead}},
		Components: []local.ComponentStatus{{Name: "etcd", PID: 2}, {Name: "node", Node: "lab-2", LastExit: "was ended by signal SIGKILL"}},
		Images:     lab.Images{Meshes: map[string]map[string]string{"linkerd": {lab.Status: "edge-1"}}}}
	printed := func() string {
		var out bytes.Buffer
		must.OK(t, printStatus(&out, status))
		return out.String()
	}
	text := printed()
	for _, want := range []string{`NODE +STATE +REGION +ZONE`, `lab-1 +running +eu +a `, `lab-2 +dead +eu +b `, `etcd +up for`,
		`lab-2/node +down +0 +was ended`, `linkerd +edge-1`, `for +a run \(` + run.String() + `\), which stops it when it ends`} {
		if !regexp.MustCompile("(?m)^" + want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	status.Orphaned = true
	contains(t, printed(), "a run that was killed ("+run.String()+"): the next run stops it when it ends, as does meshtrial lab down")
	status.ForRun, status.Orphaned, status.Nodes, status.Images.Meshes["linkerd"] = nil, false, status.Nodes[:1], nil
	if text := printed(); regexp.MustCompile(`NODE |linkerd|run \(`).MatchString(text) {
		t.Errorf("of one node without Linkerd, of nobody's run:\n%s", text)
	}
}

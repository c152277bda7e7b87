package cli

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
)

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

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/meshes"
	"github.com/meshtrial/meshtrial/study"
)

// meshFlags holds the values of a command's mesh flags.
type meshFlags struct {
	given mesh.Choices
	adds  []string // meshes that a given flag adds
}

// addMeshFlags adds the mesh flags of a command. If several meshes have the same flag, each of
// them receives its value.
func addMeshFlags(flags *pflag.FlagSet, command mesh.Command) *meshFlags {
	m := &meshFlags{given: mesh.Choices{}}
	for _, kit := range meshes.Kits {
		for _, f := range kit.Flags {
			if f.Commands&command == 0 {
				continue
			}
			if had := flags.Lookup(f.Name); had != nil {
				had.Value.(*meshFlag).take(kit.Name, f)
				continue
			}
			value := &meshFlag{of: m, kind: f.Kind, text: f.Default}
			value.take(kit.Name, f)
			flags.Var(value, f.Name, f.Usage)
			if f.Kind == mesh.Switch {
				flags.Lookup(f.Name).NoOptDefVal = "true"
			}
		}
	}
	return m
}

// names parses --mesh. If --mesh was not given, it also returns the meshes that other flags add.
func (m *meshFlags) names(text string, given bool) ([]string, error) {
	var names []string
	for _, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == study.MeshNone && text != name:
			return nil, errs.Usage("--mesh is none or names meshes, not both")
		case name == study.MeshNone:
			continue
		case !slices.Contains(meshes.Installable(), name):
			return nil, errs.WithHint(errs.Usage("unknown mesh %q", name), "%s, several as istio,linkerd, or none", strings.Join(meshes.Installable(), ", "))
		case slices.Contains(names, name):
			return nil, errs.Usage("--mesh names %s twice", name)
		}
		names = append(names, name)
	}
	for _, name := range m.adds {
		if !given && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// meshFlag implements [pflag.Value] for a mesh flag.
type meshFlag struct {
	of    *meshFlags
	kind  mesh.FlagKind
	takes []taker
	text  string
}

// taker is a mesh that has the flag.
type taker struct {
	mesh string
	flag mesh.Flag
}

func (f *meshFlag) take(name string, flag mesh.Flag) { f.takes = append(f.takes, taker{name, flag}) }

// String implements [pflag.Value].
func (f *meshFlag) String() string { return f.text }

// Type implements [pflag.Value].
func (f *meshFlag) Type() string {
	return map[mesh.FlagKind]string{mesh.Text: "string", mesh.Switch: "bool", mesh.List: "strings", mesh.Repeated: "stringArray"}[f.kind]
}

// Set implements [pflag.Value].
func (f *meshFlag) Set(text string) error {
	values := []string{text}
	switch f.kind {
	case mesh.Switch:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		if text == "false" {
			values = nil
		}
	case mesh.List:
		values = strings.Split(text, ",")
	}
	f.text = text
	for _, t := range f.takes {
		s, name := f.of.given[t.mesh], t.flag.Setting()
		all := values
		if f.kind == mesh.List || f.kind == mesh.Repeated {
			all = slices.Concat(s[name], values)
		}
		f.of.given[t.mesh] = s.With(name, all...)
		if t.flag.Adds && !slices.Contains(f.of.adds, t.mesh) {
			f.of.adds = append(f.of.adds, t.mesh)
		}
	}
	return nil
}

// meshFlagNames returns the names of a command's mesh flags.
func meshFlagNames(command mesh.Command) (names []string) {
	for _, kit := range meshes.Kits {
		for _, f := range kit.Flags {
			if f.Commands&command != 0 {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

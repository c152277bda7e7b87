package istio

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// flags returns what the named levers require of istiod's command line, by flag: a
// value, or nil for a flag that must be absent, so that istiod's own default
// applies.
func flags(l mesh.Levers) map[string]*string {
	return asked(l, func(lever study.Lever) string { return lever.Flag }, study.LevelNone)
}

// setFlags applies the flags to a container's command line. It leaves a command line
// that already has them unchanged.
func setFlags(container *corev1.Container, want map[string]*string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, set := flagIn(container.Args, name)
		if set == (want[name] != nil) && (!set || spelledFlag(name, value) == *want[name]) {
			continue
		}
		container.Args = withoutFlag(container.Args, name)
		if want[name] != nil {
			container.Args = append(container.Args, "--"+name, *want[name])
		}
	}
}

// withoutFlag returns a command line without a flag, given as "--name value" or as
// "--name=value".
func withoutFlag(args []string, name string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--"+name:
			i++
		case !strings.HasPrefix(args[i], "--"+name+"="):
			out = append(out, args[i])
		}
	}
	return out
}

// flagIn returns the value of a flag on a command line, where the last one wins.
func flagIn(args []string, name string) (value string, set bool) {
	for i, arg := range args {
		if arg == "--"+name && i+1 < len(args) {
			value, set = args[i+1], true
		} else if v, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			value, set = v, true
		}
	}
	return value, set
}

// spelledFlag returns a flag's value in the lever's spelling.
func spelledFlag(name, value string) string {
	for _, f := range controlplane.Levers() {
		if f.Lever.Flag == name {
			return spelled(f.Name, value)
		}
	}
	return value
}

// checkFlags checks the command lines that istiod's pods were created with.
func checkFlags(s state, l mesh.Levers) []record.Check {
	want := flags(l)
	var out []record.Check
	for _, name := range slices.Sorted(maps.Keys(want)) {
		right := "--" + name + " is not given"
		if want[name] != nil {
			right = "--" + name + " " + *want[name]
		}
		var wrong []string
		for i := range s.pods {
			var args []string
			if container := containerOf(&s.pods[i].Spec); container != nil {
				args = container.Args
			}
			value, set := flagIn(args, name)
			if set != (want[name] != nil) || set && spelledFlag(name, value) != *want[name] {
				wrong = append(wrong, fmt.Sprintf("pod %s was created with %q; expected: %s", s.pods[i].Name, strings.Join(args, " "), right))
			}
		}
		out = append(out, check("flag "+name, wrong, right+", in every pod of istiod"))
	}
	return out
}

package site

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestPrivilegesAreTold verifies that the documented privileges of pods on
// nodes are their actual ones.
func TestPrivilegesAreTold(t *testing.T) {
	for name, set := range map[string]*appsv1.DaemonSet{
		rights.Observe: ObserveSet("n", lab.Images{}, "r"), rights.Faults: faultSet("n", lab.Images{}, "r"), rights.Profiles: ProfileSet("n", lab.Images{}, "r", ""),
	} {
		features, err := rights.Named(name)
		must.OK(t, err)
		var told, has []string
		for _, word := range strings.FieldsFunc(features[0].Privileged, func(r rune) bool { return strings.ContainsRune(" ,;", r) }) {
			if word == strings.ToUpper(word) && word != strings.ToLower(word) {
				told = append(told, word)
			}
		}
		spec := set.Spec.Template.Spec
		for _, c := range spec.Containers {
			for _, one := range c.SecurityContext.Capabilities.Add {
				has = append(has, string(one))
			}
		}
		slices.Sort(told)
		slices.Sort(has)
		if !slices.Equal(told, has) || len(has) == 0 || !spec.HostPID || !strings.Contains(features[0].Privileged, "hostPID") {
			t.Errorf("%s: told is %q, it has %q", name, told, has)
		}
	}
}

// Package kinds is the table of the kinds of study. A kind lives in packages of
// its own below this one, which do not know each other; whoever needs one by
// its name asks here.
package kinds

import (
	controlplane "github.com/meshtrial/meshtrial/kinds/controlplane/trial"
	dataplane "github.com/meshtrial/meshtrial/kinds/dataplane/trial"
	resilience "github.com/meshtrial/meshtrial/kinds/resilience/trial"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
)

// Kind is a kind of study: what it supplies to each part of the program.
type Kind struct {
	Name  study.Kind
	Trial runner.Kind // carries trials through
}

var table = []Kind{
	{study.DataPlane, dataplane.Kind},
	{study.ControlPlane, controlplane.Kind},
	{study.Resilience, resilience.Kind},
}

// Of is the kind of a study.
func Of(s *study.Study) Kind {
	k, ok := Named(s.Kind)
	if !ok {
		panic("kinds: a study of no kind: " + string(s.Kind))
	}
	return k
}

// Named finds a kind by its name.
func Named(name study.Kind) (Kind, bool) {
	for _, k := range table {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

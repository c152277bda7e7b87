// Package kinds is the table of the kinds of study. A kind lives in packages of
// its own below this one, which do not know each other; whoever needs one by
// its name asks here.
package kinds

import (
	controlplane "github.com/meshtrial/meshtrial/kinds/controlplane/trial"
	controlverdict "github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	dataplane "github.com/meshtrial/meshtrial/kinds/dataplane/trial"
	dataverdict "github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	resilience "github.com/meshtrial/meshtrial/kinds/resilience/trial"
	resverdict "github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/verdict"
)

// Kind is a kind of study: what it supplies to each part of the program.
type Kind struct {
	Name  study.Kind
	Trial runner.Kind // carries trials through
	// Judge judges a trial from what it saw, under Limits.
	Judge  verdict.Judge
	Limits []verdict.Limit
}

var table = []Kind{
	{study.DataPlane, dataplane.Kind, dataverdict.Judge, dataverdict.Limits},
	{study.ControlPlane, controlplane.Kind, controlverdict.Judge, controlverdict.Limits},
	{study.Resilience, resilience.Kind, resverdict.Judge, resverdict.Limits},
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

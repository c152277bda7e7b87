// Package kinds is the table of the kinds of study. Each kind lives in its own packages below this
// one, which do not import each other. Code that needs a kind by name looks it up here.
package kinds

import (
	"github.com/meshtrial/meshtrial/internal/errs"
	controlsections "github.com/meshtrial/meshtrial/kinds/controlplane/sections"
	controltrial "github.com/meshtrial/meshtrial/kinds/controlplane/trial"
	controlverdict "github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	datasections "github.com/meshtrial/meshtrial/kinds/dataplane/sections"
	datatrial "github.com/meshtrial/meshtrial/kinds/dataplane/trial"
	dataverdict "github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	ingresssections "github.com/meshtrial/meshtrial/kinds/ingress/sections"
	ingresstrial "github.com/meshtrial/meshtrial/kinds/ingress/trial"
	ingressverdict "github.com/meshtrial/meshtrial/kinds/ingress/verdict"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	ressections "github.com/meshtrial/meshtrial/kinds/resilience/sections"
	restrial "github.com/meshtrial/meshtrial/kinds/resilience/trial"
	resverdict "github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// Kind is what a kind of study supplies to each part of the program, except study files, which its
// own package extends.
type Kind struct {
	Name  study.Kind
	Trial runner.Kind // runs trials
	// Judge judges a trial from its evidence, under Limits.
	Judge  verdict.Judge
	Limits []verdict.Limit
	// Report returns the kind's part of reports.
	Report func() report.Kind
}

var table = []Kind{
	{study.ControlPlane, controltrial.Kind, controlverdict.Judge, controlverdict.Limits, controlsections.Kind},
	{resilience.Kind, restrial.Kind, resverdict.Judge, resverdict.Limits, ressections.Kind},
	{ingress.Kind, ingresstrial.Kind, ingressverdict.Judge, ingressverdict.Limits, ingresssections.Kind},
	{study.DataPlane, datatrial.Kind, dataverdict.Judge, dataverdict.Limits, datasections.Kind},
}

// Reports returns the kinds as reports use them.
func Reports() report.Kinds {
	var out report.Kinds
	for _, k := range table {
		out = append(out, k.Report())
	}
	return out
}

// Of returns the kind of a study.
func Of(s *study.Study) Kind {
	k, ok := Named(s.Kind)
	if !ok {
		panic("kinds: a study of no kind: " + string(s.Kind))
	}
	return k
}

// OfRun returns the kind of a recorded run's study. It returns a usage error for a kind that this
// program does not know.
func OfRun(h record.Header) (Kind, error) {
	k, ok := Named(study.Kind(h.Kind))
	if !ok {
		return k, errs.WithHint(errs.Usage("run %s has unknown kind %q", h.RunID, h.Kind),
			"read it with the version that made it: meshtrial %s", h.Meshtrial)
	}
	return k, nil
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

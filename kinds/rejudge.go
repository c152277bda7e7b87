package kinds

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/verdict"
)

// Rejudge judges all trials of a run again from what they saw, under today's
// rules with the limits given. verify is the proof of mode of the mesh that
// the run's study names. The notes say which trials keep the verdict they had,
// and why. The run given is not changed.
func Rejudge(run record.Run, limits verdict.Limits, verify func(mesh string) func(mesh.Evidence) []record.Check) (out record.Run, notes []string, err error) {
	kind, ok := Named(study.Kind(run.Header.Kind))
	if !ok {
		return run, nil, errs.Usage("run %s is of kind %q, which this program does not know", run.Header.RunID, run.Header.Kind)
	}
	plan, err := analysis.Plan(run)
	if err != nil {
		return run, nil, err
	}
	out = run
	out.Header.Rules = limits.Rules(kind.Limits)
	out.Trials, out.Events = slices.Clone(run.Trials), nil
	events := map[string][]record.Event{}
	for _, e := range run.Events {
		events[e.Trial] = append(events[e.Trial], e)
	}
	for i, t := range out.Trials {
		c := verdict.Case{Plan: plan, Trial: t, Events: events[t.ID], Limits: limits, Verify: verify(plan.Study.Mesh)}
		if note, err := evidenceOf(run, &c); err != nil {
			return run, nil, err
		} else if note != "" {
			notes = append(notes, note)
			out.Events = append(out.Events, c.Events...)
			continue
		}
		judged, seen, err := kind.Judge(c)
		if err != nil {
			return run, nil, err
		}
		// What the run directory itself has lost stays lost.
		for _, check := range t.Validity.Checks {
			if check.Name == store.CheckStored {
				judged.Validity.Checks = append(judged.Validity.Checks, check)
				judged.Validity.Valid = judged.Validity.Valid && check.OK
			}
		}
		out.Trials[i], out.Events = judged, append(out.Events, seen...)
	}
	return out, notes, nil
}

// evidenceOf fills in what a trial saw, or says why it keeps its verdict.
func evidenceOf(run record.Run, c *verdict.Case) (note string, err error) {
	lost := slices.ContainsFunc(c.Trial.Validity.Checks, func(check record.Check) bool { return check.Name == runner.CheckCarriedThrough })
	if lost {
		return fmt.Sprintf("trial %s could not be carried through, which no rule changes", c.Trial.ID), nil
	}
	err = fs.ErrNotExist
	if run.Evidence != nil {
		c.Evidence, err = run.Evidence(c.Trial.ID)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("trial %s keeps its verdict: what it saw is not in the run directory", c.Trial.ID), nil
	}
	return "", err
}

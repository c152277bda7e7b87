package kinds

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
)

var noteOtherRules = note.Define("kept_verdict", "its verdict is by the rules it was measured under, which differ from those for the other trials")

// Rejudge judges all trials of a run again from their evidence, under today's rules with the given
// limits. verify is the proof of mode of the mesh that the run's study names. The notes list the
// trials that keep their verdict, with the reason. If other trials were judged by newer rules, the
// warnings of the kept ones say so too. If all trials keep their verdicts, the run keeps its
// recorded rules. Rejudge does not modify run.
func Rejudge(run record.Run, limits verdict.Limits, verify func(mesh string) func(mesh.Evidence) []record.Check) (out record.Run, notes []string, err error) {
	kind, err := OfRun(run.Header)
	if err != nil {
		return run, nil, err
	}
	plan, err := analysis.Plan(run)
	if err != nil {
		return run, nil, err
	}
	out = run
	out.Trials, out.Events = slices.Clone(run.Trials), nil
	events := map[string][]record.Event{}
	for _, e := range run.Events {
		events[e.Trial] = append(events[e.Trial], e)
	}
	var unseen []string // trials without evidence
	var kept []int      // keep a verdict that today's rules might not reach
	judged := 0
	for i := range out.Trials {
		t := &out.Trials[i]
		c := verdict.Case{Trial: *t, Events: events[t.ID], Limits: limits, Verify: verify(plan.Study.Mesh)}
		by, seen, err := judge(run, kind, c)
		switch {
		case err == nil:
			*t = withLosses(by, *t)
			out.Events = append(out.Events, seen...)
			judged++
			continue
		case errors.Is(err, errLost):
			notes = append(notes, fmt.Sprintf("trial %s could not be completed, which no rule changes", t.ID))
		case errors.Is(err, fs.ErrNotExist):
			unseen, kept = append(unseen, t.ID), append(kept, i)
		default:
			notes = append(notes, fmt.Sprintf("trial %s keeps its verdict: %s is unusable: %v", t.ID, store.EvidenceFile(t.ID), err))
			kept = append(kept, i)
		}
		out.Events = append(out.Events, c.Events...)
	}
	if len(unseen) > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d trials, first %s, keep their verdicts: their evidence is not in the run directory", len(unseen), len(out.Trials), unseen[0]))
	}
	if judged == 0 {
		if len(out.Trials) > 0 {
			notes = append(notes, "no trial was judged again: all verdicts are by the run's earlier rules")
		}
		return out, notes, nil
	}
	out.Header.Rules = limits.Rules(kind.Limits)
	if !reflect.DeepEqual(out.Header.Rules, run.Header.Rules) {
		for _, i := range kept {
			v := &out.Trials[i].Validity
			v.Warnings = append(slices.Clone(v.Warnings), noteOtherRules.Of())
		}
	}
	return out, notes, nil
}

// withLosses adds to a rejudged trial the checks that record what the run directory has lost of it,
// since that stays lost.
func withLosses(judged, before record.Trial) record.Trial {
	for _, check := range before.Validity.Checks {
		if check.Name == store.CheckStored {
			judged.Validity.Checks = append(judged.Validity.Checks, check)
			judged.Validity.Valid = judged.Validity.Valid && check.OK
		}
	}
	return judged
}

var errLost = errors.New("the trial could not be completed")

// judge judges a trial from its evidence. It returns errLost if it could not be completed, and
// fs.ErrNotExist without evidence.
func judge(run record.Run, kind Kind, c verdict.Case) (record.Trial, []record.Event, error) {
	lost := slices.ContainsFunc(c.Trial.Validity.Checks, func(check record.Check) bool { return check.Name == runner.CheckCarriedThrough })
	if lost {
		return record.Trial{}, nil, errLost
	}
	if run.Evidence == nil {
		return record.Trial{}, nil, fs.ErrNotExist
	}
	var err error
	if c.Evidence, err = run.Evidence(c.Trial.ID); err != nil {
		return record.Trial{}, nil, err
	}
	return kind.Judge(c)
}

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
	var kept keeping
	for i, t := range out.Trials {
		c := verdict.Case{Trial: t, Events: events[t.ID], Limits: limits, Verify: verify(plan.Study.Mesh)}
		judged, seen, ok := kept.judge(run, kind, c, i)
		if ok {
			out.Trials[i] = withLosses(judged, t)
		}
		out.Events = append(out.Events, seen...)
	}
	if kept.judged == 0 {
		return out, kept.told(len(out.Trials)), nil
	}
	out.Header.Rules = limits.Rules(kind.Limits)
	if !reflect.DeepEqual(out.Header.Rules, run.Header.Rules) {
		for _, i := range kept.trials {
			v := &out.Trials[i].Validity
			v.Warnings = append(slices.Clone(v.Warnings), noteOtherRules.Of())
		}
	}
	return out, kept.told(len(out.Trials)), nil
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

// keeping counts the trials that keep their verdict while others are rejudged.
type keeping struct {
	judged int
	trials []int // keep a verdict that today's rules might not reach
	notes  []string
	// unseen is the number of trials without evidence, first the first of them.
	unseen int
	first  string
}

// judge judges the trial at index i of its run if it has evidence. It returns the trial's events,
// judged or not.
func (k *keeping) judge(run record.Run, kind Kind, c verdict.Case, i int) (record.Trial, []record.Event, bool) {
	lost := slices.ContainsFunc(c.Trial.Validity.Checks, func(check record.Check) bool { return check.Name == runner.CheckCarriedThrough })
	if lost {
		k.notes = append(k.notes, fmt.Sprintf("trial %s could not be completed, which no rule changes", c.Trial.ID))
		return c.Trial, c.Events, false
	}
	err := fs.ErrNotExist
	if run.Evidence != nil {
		c.Evidence, err = run.Evidence(c.Trial.ID)
	}
	if err == nil {
		var judged record.Trial
		var seen []record.Event
		if judged, seen, err = kind.Judge(c); err == nil {
			k.judged++
			return judged, seen, true
		}
	}
	k.trials = append(k.trials, i)
	if !errors.Is(err, fs.ErrNotExist) {
		k.notes = append(k.notes, fmt.Sprintf("trial %s keeps its verdict: %s is unusable: %v", c.Trial.ID, store.EvidenceFile(c.Trial.ID), err))
	} else if k.unseen++; k.unseen == 1 {
		k.first = c.Trial.ID
	}
	return c.Trial, c.Events, false
}

// told returns the notes on a run with this number of trials.
func (k *keeping) told(trials int) []string {
	if k.unseen > 0 {
		k.notes = append(k.notes, fmt.Sprintf("%d of %d trials, first %s, keep their verdicts: their evidence is not in the run directory", k.unseen, trials, k.first))
	}
	if k.judged == 0 && trials > 0 {
		k.notes = append(k.notes, "no trial was judged again: all verdicts are by the run's earlier rules")
	}
	return k.notes
}

package fit

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/record"
)

// parts are those whose machine affects a trial's figures.
var parts = [...]struct{ name, words string }{{record.PartControl, "istiod"}, {record.PartSimulator, "the simulated sidecars"}}

// machines describes the machine of each part; "" means unknown.
type machines [len(parts)]string

// machinesOf returns the machines of a trial.
func machinesOf(t *record.Trial) (on machines) {
	for i, p := range parts {
		on[i] = t.MachineOf(p.name)
	}
	return on
}

// usual returns the machines of most trials. A model applies to one kind of machine, as no
// parameter distinguishes machines.
func usual(all []*Observation) (most machines) {
	for i := range parts {
		count := map[string]int{}
		for _, o := range all {
			count[o.on[i]]++
		}
		for _, o := range all {
			if on := o.on[i]; on != "" && (most[i] == "" || count[on] > count[most[i]]) {
				most[i] = on
			}
		}
		all = slices.DeleteFunc(slices.Clone(all), func(o *Observation) bool { return o.on[i] != "" && o.on[i] != most[i] })
	}
	return most
}

// apart returns which part ran on a machine other than the usual one.
func (o *Observation) apart(most machines) model.Why {
	for i, p := range parts {
		if on := o.on[i]; on != "" && most[i] != "" && on != most[i] {
			return model.Why{Code: model.WhyMachine, Part: p.words, On: on, Usual: most[i]}
		}
	}
	return model.Why{}
}

// shown holds the trials of runs by their use in a fit.
type shown struct {
	all, others, heldOut []*Observation
	sources              []model.Source
	left                 []Left
	notes                []model.Note
}

// show reads the trials of runs and leaves out those on machines other than the most common one.
func show(runs []record.Run, o Options) (*shown, error) {
	seen, left := make([][]*Observation, len(runs)), make([][]Left, len(runs))
	var fitted []*Observation
	for i, run := range runs {
		var err error
		if seen[i], left[i], err = Observe(run); err != nil {
			return nil, err
		}
		for _, one := range seen[i] {
			if one.For == ForAll && !o.holdsOut(one.levels) {
				fitted = append(fitted, one)
			}
		}
	}
	most := usual(fitted)
	out, apart := &shown{}, 0
	for i, run := range runs {
		var used []*Observation
		for _, one := range seen[i] {
			why := one.apart(most)
			switch {
			case why.Code != "":
				left[i] = append(left[i], Left{one.Trial, why})
				apart++
				continue
			case o.holdsOut(one.levels):
				out.heldOut = append(out.heldOut, one)
				continue
			case one.For != ForAll:
				out.others = append(out.others, one)
			default:
				out.all = append(out.all, one)
			}
			used = append(used, one)
		}
		out.sources = append(out.sources, sourceOf(run, used, left[i]))
		out.left = append(out.left, left[i]...)
	}
	out.notes = notesOf(out, apart, most)
	return out, nil
}

// notesOf lists limitations of a model of these trials; apart is the number of trials left out
// because of their machines.
func notesOf(s *shown, apart int, most machines) (notes []model.Note) {
	if apart > 0 {
		var of []string
		for i, p := range parts {
			if most[i] != "" {
				of = append(of, p.words+" on "+most[i])
			}
		}
		notes = append(notes, model.Note{Code: model.NoteMachines, N: apart, Machines: of})
	}
	if slices.ContainsFunc(s.sources, func(r model.Source) bool { return r.Istiod != s.sources[0].Istiod }) {
		notes = append(notes, model.Note{Code: model.NoteIstiodsVary})
	}
	all := slices.Concat(s.all, s.others, s.heldOut)
	noP99, shared := 0, 0
	for _, o := range all {
		if o.Unattributed > mostShared {
			shared++
		}
		if math.IsInf(o.P99, 1) {
			noP99++
		}
	}
	if noP99 > 0 {
		notes = append(notes, model.Note{Code: model.NoteNoP99, N: noP99, Of: len(all)})
	}
	if shared > 0 {
		notes = append(notes, model.Note{Code: model.NoteShared, N: shared, Of: len(all)})
	}
	return notes
}

// mostShared is the share of the machine that programs outside the study may use unnoticed.
const mostShared = 0.1

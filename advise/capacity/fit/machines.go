package fit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/record"
)

// parts are those whose machine is in a trial's figures.
var parts = [...]struct{ name, words string }{{record.PartControl, "istiod"}, {record.PartSimulator, "the simulated sidecars"}}

// machines are what each of the parts ran on, in words; "" where that is not known.
type machines [len(parts)]string

// machinesOf are those of a trial. Older records know the run's alone.
func machinesOf(run record.Run, t *record.Trial) (on machines) {
	for i, p := range parts {
		on[i] = t.MachineOf(p.name)
		if len(t.Nodes) == 0 {
			on[i] = run.Header.Machine.Words()
		}
	}
	return on
}

// usual are the machines of most trials, of as many those of the first. A model is of one
// machine: what another one does differently is in no parameter.
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

// apart says which part was on another machine than usual; "" if none was.
func (o *Observation) apart(most machines) string {
	for i, p := range parts {
		if on := o.on[i]; on != "" && most[i] != "" && on != most[i] {
			return fmt.Sprintf("%s on %s, and in most trials on %s; machines that differ are not taken together", p.words, on, most[i])
		}
	}
	return ""
}

// ofOneMachine says of which machines a model is, where trials on others are left out.
func ofOneMachine(left int, most machines) []string {
	if left == 0 {
		return nil
	}
	var of []string
	for i, p := range parts {
		if most[i] != "" {
			of = append(of, p.words+" on "+most[i])
		}
	}
	return []string{fmt.Sprintf("the trials were on machines that differ: the model is of %s, and %d trials on others are left out; a model of those takes runs on such machines alone", strings.Join(of, ", and "), left)}
}

// shown are the trials of runs by what a fit does with them.
type shown struct {
	all, others, heldOut []*Observation
	sources              []model.Source
	whys                 map[string]int // why trials are left out, and how many
	notes                []string
}

// show reads the trials of runs, and leaves out those on other machines than most.
func show(runs []record.Run, o Options) (*shown, error) {
	seen, left := make([][]Observation, len(runs)), make([][]Left, len(runs))
	var fitted []*Observation
	for i, run := range runs {
		var err error
		if seen[i], left[i], err = Observe(run, o.Disturbed); err != nil {
			return nil, err
		}
		for j := range seen[i] {
			if one := &seen[i][j]; one.For == ForAll && !o.holdsOut(one.levels) {
				fitted = append(fitted, one)
			}
		}
	}
	most := usual(fitted)
	out, apart := &shown{whys: map[string]int{}}, 0
	for i, run := range runs {
		var used []*Observation
		for j := range seen[i] {
			one := &seen[i][j]
			if why := one.apart(most); why != "" {
				left[i] = append(left[i], Left{one.Trial, why})
				apart++
				continue
			}
			if o.holdsOut(one.levels) {
				out.heldOut = append(out.heldOut, one)
				continue
			}
			used = append(used, one)
			if one.For != ForAll {
				out.others = append(out.others, one)
				continue
			}
			out.all = append(out.all, one)
		}
		out.sources = append(out.sources, sourceOf(run, used, left[i]))
		for _, l := range left[i] {
			out.whys[l.Why]++
		}
	}
	out.notes = slices.Concat(ofOneMachine(apart, most), differ(out.sources), fallShort(slices.Concat(out.all, out.others, out.heldOut)))
	return out, nil
}

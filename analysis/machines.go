package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// checkMachines names the check that a trial's parts ran on the same kind of machines as the
// trials that it is combined with.
const checkMachines = "machines"

// unlike returns checks, by trial, for trials with a part on a different machine than in most
// trials of their run. Otherwise differences between machines would enter an interval or a
// difference between cells. Cells that require other places, or more pods, are compared only
// with their like. While a search or tuning is in progress, later trials must not change the
// validity of earlier ones: the first trial then decides on the machines of the others.
func (o *Observations) unlike() map[string][]record.Check {
	out := map[string][]record.Check{}
	if o.kind.Places == nil {
		return out
	}
	groups, parts := map[string][]*record.Trial{}, map[string]bool{}
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		if !t.Validity.Valid {
			continue
		}
		key := ""
		for _, factor := range o.kind.Places {
			key += t.Cell[factor] + ","
		}
		groups[key] = append(groups[key], t)
		for name := range t.Nodes {
			parts[record.PartOfHand(name)] = true
		}
	}
	usually := "in most trials"
	if o.byFirst() {
		usually = "in the first trial"
	}
	for _, trials := range groups {
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			usual := o.usualMachine(trials, part)
			trials = slices.DeleteFunc(trials, func(t *record.Trial) bool {
				on := t.MachineOf(part)
				if on == "" || on == usual {
					return false
				}
				out[t.ID] = append(out[t.ID], record.Check{Name: checkMachines, Detail: fmt.Sprintf("%s: on %s, and %s on %s; trials on different machines are not pooled", part, on, usually, usual)})
				return true
			})
		}
	}
	return out
}

// byFirst reports whether later trials must not change the validity of earlier ones.
func (o *Observations) byFirst() bool {
	return len(o.Plan.Study.Search) > 0 || o.Plan.Study.Tune != nil
}

// usualMachine returns the machine on which most of the trials had a part, the earliest such
// machine in a tie, or "" if it is unknown.
func (o *Observations) usualMachine(trials []*record.Trial, part string) (usual string) {
	count, first := map[string]int{}, []string{}
	for _, t := range trials {
		if on := t.MachineOf(part); on != "" {
			if count[on]++; count[on] == 1 {
				first = append(first, on)
			}
		}
	}
	for _, on := range first {
		if usual == "" || count[on] > count[usual] && !o.byFirst() {
			usual = on
		}
	}
	return usual
}

// UnlikeNodes names the nodes of trials if these are different machines.
func (o *Observations) UnlikeNodes() []note.Note {
	machines, kinds := map[string]string{}, map[string]bool{} // machines by node, kinds over all nodes
	left, apart, valid := 0, 0, 0
	for i := range o.Run.Trials {
		t := &o.Run.Trials[i]
		unlike := slices.ContainsFunc(t.Validity.Checks, func(c record.Check) bool { return c.Name == checkMachines })
		if unlike {
			left++
		}
		if t.Validity.Valid {
			valid++
			client, server := t.MachineOf(record.PartGenerator), t.MachineOf(record.PartWorker)
			if client != "" && server != "" && client != server {
				apart++
			}
		}
		for _, at := range t.Nodes {
			if at.Machine != "" && (t.Validity.Valid || unlike) {
				machines[at.Name], kinds[at.Machine] = at.Machine, true
			}
		}
	}
	if len(kinds) < 2 {
		return nil
	}
	var names []string
	for _, node := range slices.Sorted(maps.Keys(machines)) {
		names = append(names, node+" is "+machines[node])
	}
	var leftOut, differ any
	if left > 0 {
		leftOut = left
	}
	if apart > 0 {
		differ = apart
	}
	return []note.Note{noteNodes.Of(strings.Join(names, "; "), differ, valid, leftOut)}
}

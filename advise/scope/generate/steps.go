package generate

import (
	"cmp"
	"encoding/json"
	"sort"
)

// Step is one change of an object: from what to what.
type Step struct {
	Sidecar
	// Before and After are the whole object, nil where there is none.
	Before, After map[string]any
}

// plain is an object of JSON's own types alone, as clients of the API want it.
func plain(object map[string]any) map[string]any {
	text, err := json.Marshal(object)
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil { // it is made of texts, numbers, lists and maps
		panic(err)
	}
	return out
}

// Steps are the changes in an order in which no workload has less than what it
// needs in between: Sidecars of workloads first, then those of namespaces, then the
// mesh's, whose scopes are narrower than none; those that go last.
func (r Result) Steps() []Step {
	var out []Step
	for _, s := range r.Sidecars {
		step := Step{Sidecar: s}
		if old, found := r.existing[s.String()]; found {
			step.Before = plain(old.object(old.whole))
		}
		switch s.Change {
		case Create, Change:
			step.After = plain(s.object(s.spec()))
		case Delete:
		default:
			continue
		}
		out = append(out, step)
	}
	rank := func(s Step) int {
		switch {
		case s.Change == Delete:
			return 3
		case s.mesh:
			return 2
		case !s.selective():
			return 1
		}
		return 0
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
	})
	return out
}

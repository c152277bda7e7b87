package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// maxAgain is the maximum number of failed tests to rerun; with more of them,
// the machine is not the cause.
const maxAgain = 5

// roots returns the failed tests that may be rerun: those on a lab, not part of
// another test, in a package that did not die. It returns none if more than
// most tests failed.
func (t *tally) roots(most int) []result {
	var roots []result
	for _, r := range t.failed {
		if root := r.root(); !slices.ContainsFunc(roots, root.same) {
			roots = append(roots, root)
		}
	}
	if len(roots) > most {
		return nil
	}
	return slices.DeleteFunc(roots, func(r result) bool { return t.dead[r.pkg] || !has(t.onLabs, r) })
}

// again reruns failed tests, each package's by one call of alone, and replaces
// their results.
func (t *tally) again(most int, alone func(pkg string, names []string) (*tally, error)) error {
	names := map[string][]string{}
	for _, r := range t.roots(most) {
		names[r.pkg] = append(names[r.pkg], r.test)
	}
	for _, pkg := range slices.Sorted(maps.Keys(names)) {
		second, err := alone(pkg, names[pkg])
		if err != nil {
			return err
		}
		for _, name := range names[pkg] {
			t.replace(result{pkg: pkg, test: name}, second)
		}
		for lab, u := range second.labs {
			mine := t.lab(lab)
			mine.starts, mine.upS = mine.starts+u.starts, mine.upS+u.upS
		}
	}
	return nil
}

// replace replaces the results of a test, with its parts, by those of a second run. A
// test that failed there, or did not end, has failed.
func (t *tally) replace(root result, second *tally) {
	of := func(r result) bool { return r.root().same(root) }
	if !has(second.passed, root) || second.dead[root.pkg] {
		at := slices.IndexFunc(t.failed, root.same) // it fails with its parts
		t.failed[at].reason += "\n(once more, alone)\n" + cmp.Or(reasons(second, of), "it did not run")
		return
	}
	root.reason = reasons(t, of)
	t.disturbed = append(t.disturbed, root)
	t.failed, t.passed = slices.DeleteFunc(t.failed, of), slices.DeleteFunc(t.passed, of)
	for _, r := range second.passed {
		if of(r) {
			t.passed = append(t.passed, r)
		}
	}
}

// reasons returns the output of failed tests, and that of packages that died.
func reasons(t *tally, of func(result) bool) string {
	var all []string
	for _, r := range t.failed {
		if of(r) || r.test == "" {
			all = append(all, r.String()+"\n"+r.reason)
		}
	}
	return strings.Join(all, "\n")
}

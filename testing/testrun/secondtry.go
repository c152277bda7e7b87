package main

import "slices"

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
	var packages []string
	for _, r := range t.roots(most) {
		if !slices.Contains(packages, r.pkg) {
			packages = append(packages, r.pkg)
		}
		names[r.pkg] = append(names[r.pkg], r.test)
	}
	for _, pkg := range packages {
		second, err := alone(pkg, names[pkg])
		if err != nil {
			return err
		}
		t.replace(pkg, names[pkg], second)
		for lab, u := range second.labs {
			mine := t.lab(lab)
			mine.starts, mine.upS = mine.starts+u.starts, mine.upS+u.upS
		}
	}
	return nil
}

// replace replaces the results of a package's tests, with their parts, by those
// of a second run. A test that failed there, or did not end, has failed.
func (t *tally) replace(pkg string, names []string, second *tally) {
	again := func(r result) bool { return r.pkg == pkg && slices.Contains(names, r.root().test) }
	first := t.failed
	for _, name := range names {
		root := result{pkg: pkg, test: name}
		of := func(r result) bool { return r.root().same(root) }
		if !has(second.passed, root) || second.dead[pkg] {
			t.failed = append(t.failed, result{pkg: pkg, test: name, reason: "(once more, alone)\n" + reasons(second, of)})
			continue
		}
		t.failed = slices.DeleteFunc(slices.Clone(t.failed), of)
		t.passed = slices.DeleteFunc(t.passed, of)
		for _, r := range second.passed {
			if of(r) {
				t.passed = append(t.passed, r)
			}
		}
		root.reason = reasons(&tally{failed: first}, of)
		t.disturbed = append(t.disturbed, root)
	}
	t.failed = merged(t.failed, again)
}

// merged joins the reasons of results that appear twice.
func merged(list []result, which func(result) bool) []result {
	var out []result
	for _, r := range list {
		if i := slices.IndexFunc(out, r.same); i >= 0 && which(r) {
			out[i].reason += "\n" + r.reason
			continue
		}
		out = append(out, r)
	}
	return out
}

// reasons returns the output of failed tests.
func reasons(t *tally, of func(result) bool) string {
	all := ""
	for _, r := range t.failed {
		if of(r) || r.test == "" {
			all += r.String() + "\n" + r.reason + "\n"
		}
	}
	if all == "" {
		all = "it did not run\n"
	}
	return all[:len(all)-1]
}

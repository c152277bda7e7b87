package main

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"slices"
)

// slow returns the tests that passed and are not part of others, the longest first.
func (t *tally) slow() []result {
	tests := slices.DeleteFunc(slices.Clone(t.passed), func(r result) bool { return r.test == "" || !r.root().same(r) })
	slices.SortFunc(tests, func(a, b result) int {
		return cmp.Or(cmp.Compare(b.elapsed, a.elapsed), cmp.Compare(a.String(), b.String()))
	})
	return tests
}

// writeSeconds writes the seconds of these tests, in the form of verify-seconds.json.
func (t *tally) writeSeconds(path string) error {
	seconds := map[string]float64{}
	for _, r := range t.slow() {
		seconds[r.String()] = math.Round(r.elapsed)
	}
	text, err := json.MarshalIndent(seconds, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

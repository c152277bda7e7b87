package main

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"time"
)

// times records where the time of a run of tests went: the content of
// bin/test-times.json and bin/verify-times.json.
type times struct {
	Schema   int        `json:"schema"`
	Mode     string     `json:"mode"`
	Seconds  float64    `json:"seconds"` // from beginning to end
	Packages []timed    `json:"packages"`
	Labs     []labTime  `json:"labs"`
	Tests    []testTime `json:"tests"` // that passed and are not part of others
}

type timed struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

type labTime struct {
	Name     string  `json:"name"`
	Starts   int     `json:"starts"`
	UpS      float64 `json:"up_s"` // over all starts
	Packages []timed `json:"packages"`
}

type testTime struct {
	Package string  `json:"package"`
	Test    string  `json:"test"`
	Seconds float64 `json:"seconds"`
}

// times returns the times, sorted by seconds, longest first.
func (t *tally) times(mode string, took time.Duration) times {
	out := times{Schema: 1, Mode: mode, Seconds: took.Seconds()}
	longest := func(a, b timed) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name))
	}
	for name, minutes := range t.minutes {
		out.Packages = append(out.Packages, timed{name, 60 * minutes})
	}
	slices.SortFunc(out.Packages, longest)
	for name, u := range t.labs {
		l := labTime{Name: name, Starts: u.starts, UpS: u.upS}
		for pkg, seconds := range u.seconds {
			l.Packages = append(l.Packages, timed{pkg, seconds})
		}
		slices.SortFunc(l.Packages, longest)
		out.Labs = append(out.Labs, l)
	}
	slices.SortFunc(out.Labs, func(a, b labTime) int { return cmp.Compare(a.Name, b.Name) })
	for _, r := range t.passed {
		if r.test != "" && r.root() == (result{pkg: r.pkg, test: r.test}) {
			out.Tests = append(out.Tests, testTime{short(r.pkg), r.test, r.elapsed})
		}
	}
	slices.SortFunc(out.Tests, func(a, b testTime) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Package, b.Package), cmp.Compare(a.Test, b.Test))
	})
	return out
}

func (t times) write(path string) error {
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

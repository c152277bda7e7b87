package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// share selects a part of "verify": one of several shards, which together run
// everything exactly once on different machines, or the tests on labs whose
// names match a pattern. The zero value selects everything.
type share struct {
	shard, shards int
	only          *regexp.Regexp
}

// shareOf reads SHARD=k/n and RUN=pattern from the environment.
func shareOf(env func(string) string) (share, error) {
	var s share
	if text := env("SHARD"); text != "" {
		k, n, _ := strings.Cut(text, "/")
		var err1, err2 error
		s.shard, err1 = strconv.Atoi(k)
		s.shards, err2 = strconv.Atoi(n)
		if err1 != nil || err2 != nil || s.shard < 1 || s.shard > s.shards {
			return share{}, fmt.Errorf("SHARD=%s: want k/n with 1 <= k <= n, such as 2/4", text)
		}
	}
	if text := env("RUN"); text != "" {
		pattern, err := regexp.Compile(text)
		if err != nil {
			return share{}, fmt.Errorf("RUN: %w", err)
		}
		s.only = pattern
	}
	return s, nil
}

// whole reports whether the share omits nothing.
func (s share) whole() bool { return s.shards <= 1 && s.only == nil }

// cost is a unit of a shard's work: one test on a lab, one fuzz target, a
// package's simulations, or a package's tests under the race detector.
type cost struct {
	pkg, test string
	kind      costKind
	seconds   float64
}

type costKind int

const (
	labTest costKind = iota
	fuzzTarget
	simulation
	raced
)

// Seconds for items that are not in verifySeconds.
var usual = map[costKind]float64{labTest: 60, fuzzTarget: 15, simulation: 300, raced: 20}

// verifySeconds are the seconds of tests by "package test", and of packages
// under the race detector by "package -race", from bin/verify-times.json. They
// only balance the shards.
//
//go:embed verify-seconds.json
var verifySeconds []byte

// of returns the packages reduced to what belongs to the share.
func (s share) of(packages []goPackage) ([]goPackage, error) {
	if s.whole() {
		return packages, nil
	}
	known := map[string]float64{}
	if err := json.Unmarshal(verifySeconds, &known); err != nil {
		return nil, err
	}
	var all []cost
	add := func(kind costKind, pkg, test string) {
		if s.only != nil && (kind != labTest || !s.only.MatchString(test)) {
			return
		}
		seconds, ok := known[pkg+" "+test]
		if !ok {
			seconds = usual[kind]
		}
		all = append(all, cost{pkg, test, kind, seconds})
	}
	for _, p := range packages {
		for _, name := range p.verify {
			add(labTest, p.name, name)
		}
		for _, name := range p.fuzz {
			add(fuzzTarget, p.name, name)
		}
		if p.simulates {
			add(simulation, p.name, simulations)
		}
		if p.concurrent {
			add(raced, p.name, "-race")
		}
	}
	// The longest first, each to the shard with the least work, so that every
	// machine arrives at the same division.
	slices.SortFunc(all, func(a, b cost) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	load := make([]float64, max(s.shards, 1))
	mine := map[string]*goPackage{}
	for _, c := range all {
		least := slices.Index(load, slices.Min(load))
		load[least] += c.seconds
		if least != max(s.shard, 1)-1 {
			continue
		}
		p := mine[c.pkg]
		if p == nil {
			p = &goPackage{name: c.pkg}
			mine[c.pkg] = p
		}
		switch c.kind {
		case labTest:
			p.verify = append(p.verify, c.test)
		case fuzzTarget:
			p.fuzz = append(p.fuzz, c.test)
		case simulation:
			p.simulates = true
		case raced:
			p.concurrent = true
		}
	}
	var out []goPackage
	for _, p := range packages {
		if m := mine[p.name]; m != nil {
			out = append(out, *m)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no test of verify matches RUN=%s", s.only)
	}
	return out, nil
}

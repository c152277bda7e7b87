package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// event is one event of test2json (go doc test2json) or of a build (go help
// buildjson).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of the package being built
	FailedBuild string // set in the failure of a package that did not build
	Test        string
	Elapsed     float64 // seconds
	Output      string
}

type result struct {
	pkg, test string // without a test: a step, or the package itself died
	elapsed   float64
	reason    string
}

func (r result) String() string { return strings.TrimSuffix(short(r.pkg)+" "+r.test, " ") }

// root returns the test that a subtest belongs to.
func (r result) root() result {
	test, _, _ := strings.Cut(r.test, "/")
	return result{pkg: r.pkg, test: test}
}

func (r result) same(o result) bool { return r.pkg == o.pkg && r.test == o.test }

// use is the use of a lab by tests.
type use struct {
	starts  int
	upS     float64            // seconds until it was up, over all starts
	seconds map[string]float64 // by package
}

// tally sums up the events of a run of tests. Only tests and steps count, not
// packages; a package that fails without a failed test (it did not build, or died
// before any test began) counts as one failure.
type tally struct {
	out      io.Writer
	output   map[string]*strings.Builder // by package and test, or by import path of a build
	failedIn map[string]bool             // packages with a failed test
	running  []result                    // tests that have begun but not ended, in order
	dead     map[string]bool             // packages whose process ended before its tests did
	expired  map[string]bool             // packages with a fuzz target that ran out of time

	passed, failed, skipped []result
	disturbed               []result // failed, and passed when rerun
	minutes                 map[string]float64
	labs                    map[string]*use // by the lab's name
	onLabs                  []result        // tests on labs that are not part of others
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, output: map[string]*strings.Builder{}, failedIn: map[string]bool{}, dead: map[string]bool{}, expired: map[string]bool{},
		minutes: map[string]float64{}, labs: map[string]*use{}}
}

// add adds the contents of another tally.
func (t *tally) add(o *tally) {
	t.passed, t.failed, t.skipped = append(t.passed, o.passed...), append(t.failed, o.failed...), append(t.skipped, o.skipped...)
	for name, m := range o.minutes {
		t.minutes[name] += m
	}
	for name, u := range o.labs {
		mine := t.lab(name)
		mine.starts, mine.upS = mine.starts+u.starts, mine.upS+u.upS
		for pkg, s := range u.seconds {
			mine.seconds[pkg] += s
		}
	}
	t.onLabs = append(t.onLabs, o.onLabs...)
	maps.Copy(t.dead, o.dead)
}

func (t *tally) lab(name string) *use {
	if t.labs[name] == nil {
		t.labs[name] = &use{seconds: map[string]float64{}}
	}
	return t.labs[name]
}

// step counts something that is not a Go test.
func (t *tally) step(name string, err error) { t.timed(name, err, 0) }

func (t *tally) timed(name string, err error, took time.Duration) {
	r := result{pkg: name, elapsed: took.Seconds()}
	word := "ok  "
	if err != nil {
		r.reason, word = err.Error(), "FAIL"
		t.failed = append(t.failed, r)
	} else {
		t.passed = append(t.passed, r)
	}
	if took > 0 {
		t.minutes[name] += took.Minutes()
		fmt.Fprintf(t.out, "%s  %-32s %6.1f s\n", word, name, took.Seconds())
	}
}

// read processes the events until the end of in.
func (t *tally) read(in io.Reader) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var e event
		if json.Unmarshal(scanner.Bytes(), &e) != nil {
			fmt.Fprintln(t.out, scanner.Text()) // the go command's own messages
			continue
		}
		t.take(e)
	}
	return scanner.Err()
}

func (t *tally) take(e event) {
	key := e.Package + " " + e.Test
	if e.ImportPath != "" {
		key = e.ImportPath
	}
	switch e.Action {
	case "start": // a package may start more than once
		delete(t.failedIn, e.Package)
		delete(t.expired, e.Package)
		delete(t.output, key)
	case "run":
		t.running = append(t.running, result{pkg: e.Package, test: e.Test})
	case "output", "build-output":
		if t.output[key] == nil {
			t.output[key] = &strings.Builder{}
		}
		t.output[key].WriteString(e.Output)
		t.ofLab(e)
	case "pass", "fail", "skip":
		r := result{pkg: e.Package, test: e.Test, elapsed: e.Elapsed, reason: text(t.output[key])}
		delete(t.output, key)
		t.running = slices.DeleteFunc(t.running, r.same)
		switch {
		case e.Test == "":
			t.endPackage(e, r)
		case e.Action == "pass":
			t.passed = append(t.passed, r)
		case outOfTime(r):
			t.expired[e.Package] = true
			t.passed = append(t.passed, r)
		case e.Action == "fail":
			t.failedIn[e.Package] = true
			t.failed = append(t.failed, r)
			t.sayFailed(r)
		default:
			r.reason = skipReason(r.reason)
			t.skipped = append(t.skipped, r)
		}
	}
}

// atOnce is the number of lines of a failed test's output to show when it fails;
// the report at the end has all of them.
const atOnce = 15

// sayFailed shows a failed test and the end of its output while other tests
// continue. A test whose parts failed has already been shown with these.
func (t *tally) sayFailed(r result) {
	lines := strings.Split(strings.TrimRight(r.reason, "\n"), "\n")
	if len(lines) > atOnce {
		lines = append([]string{"..."}, lines[len(lines)-atOnce:]...)
	}
	fmt.Fprintf(t.out, "failed: %s after %.1f s\n\t%s\n", r, r.elapsed, strings.Join(lines, "\n\t"))
}

// outOfTime reports whether a fuzz target only ran out of its time: occasionally
// the go command loses that race with itself and reports a failure. A target that
// found something names the file with the input.
func outOfTime(r result) bool {
	return strings.HasPrefix(r.test, "Fuzz") && strings.HasSuffix(r.reason, "\n    context deadline exceeded") && !strings.Contains(r.reason, "Failing input written to")
}

func (t *tally) endPackage(e event, r result) {
	if e.Action == "skip" {
		return // no test files
	}
	word := "ok  "
	if e.Action == "fail" && (!t.expired[e.Package] || t.failedIn[e.Package]) {
		word = "FAIL"
		if e.FailedBuild != "" {
			r.reason = text(t.output[e.FailedBuild]) + "\n" + r.reason
		}
		died := t.unfinished(e.Package)
		if died || deadly.MatchString(r.reason) {
			t.dead[e.Package] = true
		}
		switch {
		case !t.failedIn[e.Package]:
			t.dead[e.Package] = true
			t.failed = append(t.failed, r)
		case died:
			last := &t.failed[len(t.failed)-1]
			last.reason += "\n" + r.reason
		}
	}
	t.minutes[short(e.Package)] += e.Elapsed / 60
	fmt.Fprintf(t.out, "%s  %-32s %6.1f s\n", word, short(e.Package), e.Elapsed)
}

// deadly matches the go command's message about a package's process that did not
// exit with code 1, as one with failed tests does.
var deadly = regexp.MustCompile(`(?m)^(signal: .*|exit status ([02-9]|1\d+))$`)

// unfinished counts tests of a package that have not ended although the package
// has as failed, and reports whether there are any.
func (t *tally) unfinished(pkg string) (any bool) {
	for _, r := range t.running {
		if r.pkg != pkg {
			continue
		}
		any = true
		key := r.pkg + " " + r.test
		r.reason = "it did not end: the process of its package did\n" + text(t.output[key])
		delete(t.output, key)
		t.failedIn[pkg] = true
		t.failed = append(t.failed, r)
	}
	t.running = slices.DeleteFunc(t.running, func(r result) bool { return r.pkg == pkg })
	return any
}

// ofLabs matches the lines that testing/labtest writes into tests' logs.
var ofLabs = regexp.MustCompile(`: lab (\S+): (?:(wanted)|up in ([0-9.]+) s|used for ([0-9.]+) s)\n`)

// ofLab records what an output says about a lab.
func (t *tally) ofLab(e event) {
	found := ofLabs.FindStringSubmatch(e.Output)
	if found == nil {
		return
	}
	if root := (result{pkg: e.Package, test: e.Test}).root(); !has(t.onLabs, root) {
		t.onLabs = append(t.onLabs, root)
	}
	u := t.lab(found[1])
	if s, err := strconv.ParseFloat(found[3], 64); err == nil {
		u.starts, u.upS = u.starts+1, u.upS+s
	}
	if s, err := strconv.ParseFloat(found[4], 64); err == nil {
		u.seconds[short(e.Package)] += s
	}
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return strings.TrimRight(b.String(), "\n")
}

// skipReason returns a test's reason for skipping: the last line of its output
// that is not the framework's, without the source position.
func skipReason(output string) string {
	reason := "no reason given"
	for _, line := range strings.Split(output, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if at := strings.Index(line, ".go:"); at >= 0 {
			if colon := strings.Index(line[at+4:], ": "); colon >= 0 {
				line = line[at+4+colon+2:]
			}
		}
		reason = line
	}
	return reason
}

func has(list []result, r result) bool { return slices.ContainsFunc(list, r.same) }

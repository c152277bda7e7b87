// Testreport turns the JSON events of `go test -json` into what a person
// wants of a test run: a line a package while it runs, the whole output of
// what failed, every skipped test with its reason, the slowest tests, and a
// closing line "N passed, N failed, N skipped". It exits with 1 if anything
// failed, or if nothing ran.
//
//	go test -json ./... | testreport [-again N go test -json ...]
//
// With -again, at most N failed tests are run once more, each package's alone,
// by the command behind it: packages that measure or start clusters side by
// side may disturb each other. What passes then is listed with the output of
// its failure, as a flaw of the test or of what it tests, and counts as passed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strings"
)

func main() {
	again := flag.Int("again", 0, "run up to so many failed tests once more, alone, by the command in the arguments")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *again, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, again int, command []string) (ok bool, err error) {
	tests := newTally(out)
	if err := tests.read(in); err != nil {
		return false, err
	}
	if n := len(tests.roots()); len(command) > 0 && n > 0 && n <= again {
		if err := tests.again(func(pkg string, names []string) (*tally, error) {
			return runAlone(out, command, pkg, names)
		}); err != nil {
			return false, err
		}
	}
	return tests.report(), nil
}

// runAlone runs tests of one package, or all of it if none is named.
func runAlone(out io.Writer, command []string, pkg string, names []string) (*tally, error) {
	args := append(slices.Clone(command[1:]), "-count=1")
	if len(names) > 0 {
		args = append(args, "-run", "^("+strings.Join(names, "|")+")$")
	}
	cmd := exec.Command(command[0], append(args, pkg)...)
	cmd.Stderr = out
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "once more, alone: %s %s\n", strings.TrimPrefix(pkg, module), strings.Join(names, " "))
	alone := newTally(out)
	err = alone.read(events)
	_ = cmd.Wait() // the events say what failed
	return alone, err
}

// event is one event of test2json (go doc test2json) or of a build
// (go help buildjson).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of what is built
	FailedBuild string // in the failure of a package that did not build
	Test        string
	Elapsed     float64 // seconds
	Output      string
}

type result struct {
	pkg, test string // no test: the package itself died
	elapsed   float64
	reason    string
	build     bool // it did not build
}

func (r result) String() string {
	return strings.TrimSuffix(strings.TrimPrefix(r.pkg, module)+" "+r.test, " ")
}

// root is the test that a subtest is part of.
func (r result) root() result {
	test, _, _ := strings.Cut(r.test, "/")
	return result{pkg: r.pkg, test: test}
}

const module = "github.com/meshtrial/meshtrial/"

// tally is what the events of a run of tests add up to. Only tests count, not
// packages; a package that fails without a failed test (it did not build, or
// died) counts as one failure.
type tally struct {
	out      io.Writer
	output   map[string]*strings.Builder // by package and test, or by what is built
	failedIn map[string]bool             // packages with a failed test

	passed, failed, skipped []result
	disturbed               []result // failed, and passed when run once more
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, output: map[string]*strings.Builder{}, failedIn: map[string]bool{}}
}

// read takes the events until the end of in.
func (t *tally) read(in io.Reader) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var e event
		if json.Unmarshal(scanner.Bytes(), &e) != nil {
			fmt.Fprintln(t.out, scanner.Text()) // the go command's own words
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
	case "start": // a package may come in parts
		delete(t.failedIn, e.Package)
		delete(t.output, key)
	case "output", "build-output":
		if t.output[key] == nil {
			t.output[key] = &strings.Builder{}
		}
		t.output[key].WriteString(e.Output)
	case "pass", "fail", "skip":
		r := result{pkg: e.Package, test: e.Test, elapsed: e.Elapsed, reason: text(t.output[key])}
		delete(t.output, key)
		switch {
		case e.Test == "":
			endPackage(t.out, e)
			if e.Action == "fail" && !t.failedIn[e.Package] {
				if r.build = e.FailedBuild != ""; r.build {
					r.reason = text(t.output[e.FailedBuild]) + "\n" + r.reason
				}
				t.failed = append(t.failed, r)
			}
		case e.Action == "pass":
			t.passed = append(t.passed, r)
		case e.Action == "fail":
			t.failedIn[e.Package] = true
			t.failed = append(t.failed, r)
		default:
			r.reason = skipReason(r.reason)
			t.skipped = append(t.skipped, r)
		}
	}
}

// roots are the failed tests that can be run again: those that are no part of
// another. A build that failed fails again, so with one there are none.
func (t *tally) roots() []result {
	var roots []result
	for _, r := range t.failed {
		if r.build {
			return nil
		}
		if root := r.root(); !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots
}

// again has failed tests run once more, each package's by one call of alone
// (all tests of a package that died), and takes each for what it was then.
func (t *tally) again(alone func(pkg string, names []string) (*tally, error)) error {
	names := map[string][]string{}
	var packages []string
	died := map[string]bool{}
	for _, r := range t.roots() {
		if !slices.Contains(packages, r.pkg) {
			packages = append(packages, r.pkg)
		}
		names[r.pkg] = append(names[r.pkg], r.test)
		died[r.pkg] = died[r.pkg] || r.test == ""
	}
	for _, pkg := range packages {
		if died[pkg] {
			names[pkg] = nil
		}
		second, err := alone(pkg, names[pkg])
		if err != nil {
			return err
		}
		t.replace(pkg, second)
	}
	return nil
}

// replace takes a package's failures for what they were in a second run.
func (t *tally) replace(pkg string, second *tally) {
	has := func(list []result, r result) bool {
		return slices.ContainsFunc(list, func(o result) bool { return o.pkg == r.pkg && o.test == r.test })
	}
	var left []result
	for _, r := range t.failed {
		switch {
		case r.pkg != pkg || has(second.failed, r):
			left = append(left, r)
		case r.test == "" && len(second.failed) == 0 && len(second.passed) > 0: // the package did not die
			t.disturbed = append(t.disturbed, r)
		case has(second.passed, r) && !has(second.failed, r.root()):
			t.disturbed = append(t.disturbed, r)
			t.passed = append(t.passed, r)
		default:
			left = append(left, r) // it did not run
		}
	}
	for _, r := range second.failed {
		r.reason = "(once more, alone)\n" + r.reason
		if !has(left, r) {
			t.passed = slices.DeleteFunc(t.passed, func(o result) bool { return o.pkg == r.pkg && o.test == r.test })
		} else {
			i := slices.IndexFunc(left, func(o result) bool { return o.pkg == r.pkg && o.test == r.test })
			r.reason = left[i].reason + "\n" + r.reason
			left = slices.Delete(left, i, i+1)
		}
		left = append(left, r)
	}
	for _, list := range [][]result{second.passed, second.skipped} {
		for _, r := range list {
			if !has(t.passed, r) && !has(t.skipped, r) && !has(left, r) { // of a package that had died
				if has(second.skipped, r) {
					t.skipped = append(t.skipped, r)
				} else {
					t.passed = append(t.passed, r)
				}
			}
		}
	}
	t.failed = left
}

// report prints what the run comes to, and says whether all is well.
func (t *tally) report() (ok bool) {
	slow := slices.Clone(t.passed)
	sort.SliceStable(slow, func(i, j int) bool { return slow[i].elapsed > slow[j].elapsed })
	fmt.Fprintln(t.out, "\nslowest:")
	for _, r := range slow[:min(8, len(slow))] {
		fmt.Fprintf(t.out, "  %7.1f s  %s\n", r.elapsed, r)
	}
	for _, r := range t.skipped {
		fmt.Fprintf(t.out, "skipped: %s: %s\n", r, r.reason)
	}
	for _, r := range t.disturbed {
		fmt.Fprintf(t.out, "\nDISTURBED: %s: it failed, and passed when run once more, alone. Look why:\n%s\n", r, r.reason)
	}
	for _, r := range t.failed {
		fmt.Fprintf(t.out, "\nFAILED: %s\n%s\n", r, r.reason)
	}
	fmt.Fprintf(t.out, "\n%d passed, %d failed, %d skipped\n", len(t.passed), len(t.failed), len(t.skipped))
	return len(t.failed) == 0 && len(t.passed) > 0
}

func endPackage(out io.Writer, e event) {
	if e.Action == "skip" {
		return // no test files
	}
	word := map[string]string{"pass": "ok  ", "fail": "FAIL"}[e.Action]
	fmt.Fprintf(out, "%s  %-32s %6.1f s\n", word, strings.TrimPrefix(e.Package, module), e.Elapsed)
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return strings.TrimRight(b.String(), "\n")
}

// skipReason is what a test said when it skipped: the last line of its
// output that is not the framework's, without the source position.
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

// Testreport turns the JSON events of `go test -json` into what a person
// wants of a test run: a line a package while it runs, the whole output of
// what failed, every skipped test with its reason, the slowest tests, and a
// closing line "N passed, N failed, N skipped". It exits with 1 if anything
// failed, or if nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

func main() {
	ok, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

// event is one event of test2json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

type result struct {
	name    string
	elapsed float64
	reason  string
}

const module = "github.com/meshmark/meshmark/"

// report reads events until the end of in. Only tests count, not packages;
// a package that fails without a failed test (it did not build, or died)
// counts as one failure.
func report(in io.Reader, out io.Writer) (ok bool, err error) {
	var (
		output              = map[string]*strings.Builder{} // by package and test
		failedIn            = map[string]bool{}             // packages with a failed test
		passed, failedTests int
		failures, skips     []result
		slow                []result
	)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var e event
		if json.Unmarshal(scanner.Bytes(), &e) != nil {
			fmt.Fprintln(out, scanner.Text()) // the go command's own words
			continue
		}
		key := e.Package + " " + e.Test
		name := strings.TrimPrefix(e.Package, module) + " " + e.Test
		switch e.Action {
		case "start": // a package may come in parts
			delete(failedIn, e.Package)
			delete(output, key)
		case "output", "build-output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
		case "pass", "fail", "skip":
			if e.Test == "" {
				endPackage(out, e)
				if e.Action == "fail" && !failedIn[e.Package] {
					failedTests++
					failures = append(failures, result{name: name, reason: text(output[key])})
				}
				continue
			}
			switch e.Action {
			case "pass":
				passed++
				slow = append(slow, result{name: name, elapsed: e.Elapsed})
			case "fail":
				failedTests++
				failedIn[e.Package] = true
				failures = append(failures, result{name: name, reason: text(output[key])})
			case "skip":
				skips = append(skips, result{name: name, reason: skipReason(text(output[key]))})
			}
			if e.Action != "fail" {
				delete(output, key)
			}
		case "build-fail":
			failedTests++
			failedIn[e.Package] = true
			failures = append(failures, result{name: name, reason: text(output[key])})
		}
	}
	if err := scanner.Err(); err != nil {
		return false, err
	}
	sort.SliceStable(slow, func(i, j int) bool { return slow[i].elapsed > slow[j].elapsed })
	fmt.Fprintln(out, "\nslowest:")
	for _, r := range slow[:min(8, len(slow))] {
		fmt.Fprintf(out, "  %7.1f s  %s\n", r.elapsed, r.name)
	}
	for _, r := range skips {
		fmt.Fprintf(out, "skipped: %s: %s\n", r.name, r.reason)
	}
	for _, r := range failures {
		fmt.Fprintf(out, "\nFAILED: %s\n%s\n", r.name, r.reason)
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", passed, failedTests, len(skips))
	return failedTests == 0 && passed > 0, nil
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

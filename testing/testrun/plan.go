package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What is run. Files of tests on the lab for "test" have the build tag integration, those
// for "verify" the tag verify. Code that both need has either tag, and contains no tests.
const (
	modeTest   = "test"
	modeVerify = "verify"
)

var tagOf = map[string]string{modeTest: "integration", modeVerify: "verify"}

// tags returns the build tags of a mode, including those with which the Makefile compiles
// everything: a flag -tags replaces them.
func tags(mode string) string {
	for flag := range strings.FieldsSeq(os.Getenv("GOFLAGS")) {
		if always, ok := strings.CutPrefix(flag, "-tags="); ok {
			return tagOf[mode] + "," + always
		}
	}
	return tagOf[mode]
}

// job is one command.
type job struct {
	name    string
	command []string
	events  bool   // it prints the events of go test -json; otherwise it is a step itself
	needs   string // a program without which the job is skipped
	yield   bool   // as for its lane
}

// lane is a sequence of jobs, run in parallel with other lanes.
type lane struct {
	name  string
	lab   bool // its tests share a lab
	yield bool // to all others: it only gets CPU that no other lane wants
	jobs  []job
}

// labLanes lists the packages whose tests on labs share one, in order: names, or prefixes
// of names that end in "/". Other packages have their own labs. In "test" the lanes take
// about equally long.
var labLanes = []struct {
	name     string
	packages []string
}{
	{"studies", []string{"run/runner"}},
	{"istiod", []string{"mesh/istio", "testing/fidelity", "drive/xds", "run/site", "kinds/"}},
	{"cluster", []string{"lab/journal", "drive/churn", "drive/population", "cli"}},
}

// elsewhere lists tests of "test" that run on the lab of a lane other than their package's.
var elsewhere = map[string]string{"TestControlRun": "istiod", "TestControlTraffic": "istiod"}

// measuring matches packages whose tests measure times: they have the machine to
// themselves.
var measuring = regexp.MustCompile(`^(bench|bench/worker|drive/fault/.*|internal/(jsonhttp|rawgrpc|wake)|testing/leakcheck|drive/load|drive/load/.*|observe|drive/worker|drive/worker/.*|drive/xds/(control|stream)|testing/xdsserver)$`)

// undisturbed lists tests of "verify" that run after everything else has ended: those that
// compare figures of a few short trials, most of which would be invalid next to other
// tests; one that loads this machine as much as shipped studies do; and one that itself
// runs tests of times.
var undisturbed = map[string][]string{
	"cli":               {"TestAssessStudies", "TestShippedAmbient", "TestTuneOnLab"},
	"testing/extending": {"TestChangesWork"},
	"run/runner":        {"TestShippedBill", "TestShippedHops", "TestShippedIdleSidecars", "TestShippedProfiles", "TestShippedSimulatedAgainstReal"},
}

// guests lists long tests of "verify" that use their own lab or none. They need not wait for
// those that share their package's lab, and run in a parallel lane.
var guests = map[string][]string{"cli": {"TestAmbientUpgrade", "TestAssessAmbientMesh", "TestAssessMeshes", "TestDetachedFaults", "TestImageRuns", "TestLeastRights", "TestProgramChild", "TestProgramKilled", "TestStandaloneImageForAnotherProcessor", "TestTheirMesh", "TestTheirRoot", "TestVersionUpgrade", "TestZtunnelPushes"}}

// simulated lists the packages with tests named TestSimulation..., and the number of runs
// that each simulates per cell of its tables: enough for a share that misses its target to
// fail. "verify" runs these tests, "test" does not.
var simulated = map[string]int{"stat": 1000, "analysis": 150, "stat/tuning": 50, "bench/capacity": 12, "kinds/dataplane/findings": 60}

const simulations = "^TestSimulation"

// goPackage is a package of the repository with tests.
type goPackage struct {
	name       string // without the module's
	concurrent bool   // it, or a test of it, starts goroutines
	simulates  bool   // it has tests of [simulations]
	// integration and verify are the tests that need the build tag of that name, plain those
	// that need none, without simulations.
	integration, verify, plain []string
	fuzz                       []string
}

// makePlan returns what to run: stages in turn, each of parallel lanes. Only "verify" can
// be sharded.
func makePlan(mode string, packages []goPackage, part share, root bool) ([][]lane, error) {
	if mode == modeVerify {
		packages, err := part.of(packages)
		return verifyPlan(packages, part, root), err
	}
	components := lane{name: "components"}
	if root {
		components.jobs = []job{
			{name: "components", command: []string{"bin/meshtrial", "lab", "components", "build"}},
			// It is not part of a lab; a test checks that it works with one.
			{name: "istioctl", command: []string{"bin/meshtrial", "lab", "components", "build", "istioctl"}},
		}
	}
	var plain, mixed, alone, onLabs []string
	lanes := map[string]*labTests{}
	for _, p := range packages {
		switch {
		case measuring.MatchString(p.name):
			alone = append(alone, p.name)
			continue
		case len(p.integration) == 0:
			plain = append(plain, p.name)
			continue
		}
		mixed, onLabs = append(mixed, p.name), append(onLabs, p.integration...)
		for _, test := range p.integration {
			name := cmp.Or(elsewhere[test], laneOf(p.name))
			if lanes[name] == nil {
				lanes[name] = &labTests{}
			}
			lanes[name].add(p.name, test)
		}
	}
	flags := []string{"-tags", tags(mode)}
	var beside []lane
	for _, l := range labLanes {
		if t := lanes[l.name]; t != nil {
			beside = append(beside, lane{name: l.name, lab: true, jobs: []job{t.job(l.name, inOrder(t.packages, l.packages), flags)}})
		}
	}
	if t := lanes[""]; t != nil {
		beside = append(beside, lane{name: "own labs", jobs: []job{t.job("own labs", t.packages, flags)}})
	}
	npm := func(name, target string) job {
		return job{name: name, needs: "npm", command: []string{"make", "--no-print-directory", target}}
	}
	rest := func(packages []string, skip, parallel string) job {
		return goTest("the rest", packages, append(flags, "-skip", skip, "-p", parallel)...)
	}
	beside = append(beside, lane{name: "the rest", jobs: []job{rest(mixed, simulations+"|"+only(onLabs), "2"), rest(plain, simulations, "2"), npm("page", "test-web")}})
	node := lane{name: "packages of Node.js", jobs: []job{npm("packages of Node.js", "node-packages")}}
	return [][]lane{{components, node}, beside, {{name: "measuring", jobs: []job{rest(alone, simulations, "1")}}}}, nil
}

// labTests lists the tests of a lane and their packages.
type labTests struct{ packages, tests []string }

func (t *labTests) add(pkg, test string) {
	if !slices.Contains(t.packages, pkg) {
		t.packages = append(t.packages, pkg)
	}
	t.tests = append(t.tests, test)
}

// job returns a job that runs them, one package after the other.
func (t *labTests) job(name string, packages, flags []string) job {
	return goTest(name, packages, append(flags, "-run", only(t.tests), "-p", "1")...)
}

func verifyPlan(packages []goPackage, part share, root bool) [][]lane {
	var beside []lane
	lanes := map[string]int{}
	last := lane{name: "measuring", lab: true}
	var figures []job
	guest := lane{name: "guests"}
	components := lane{name: "components"}
	if root {
		components.jobs = []job{{name: "components", command: []string{"bin/meshtrial", "lab", "components", "build"}}}
	}
	var together, alone []string
	var simulate []job
	for _, p := range packages {
		switch {
		case !p.concurrent: // no races to find
		case measuring.MatchString(p.name):
			alone = append(alone, p.name)
		default:
			together = append(together, p.name)
		}
		if p.simulates {
			simulate = append(simulate, simulationTest(p.name))
		}
		if len(p.verify) == 0 {
			continue
		}
		name := laneOf(p.name)
		at, there := lanes[name]
		if !there {
			at = len(beside)
			lanes[name], beside = at, append(beside, lane{name: name, lab: name != ""})
		}
		now, later := apart(p.verify, undisturbed[p.name])
		now, own := apart(now, guests[p.name])
		if len(own) > 0 {
			guest.jobs = append(guest.jobs, verifyTest(p.name, own))
		}
		if len(now) > 0 {
			beside[at].jobs = append(beside[at].jobs, verifyTest(p.name, now))
		}
		if len(later) > 0 {
			figures = append(figures, verifyTest(p.name, later))
		}
	}
	compiled := lane{name: "compiled", yield: true}
	if part.whole() || part.shard == 1 {
		compiled.jobs = append(compiled.jobs, job{name: "staticcheck", command: []string{"make", "--no-print-directory", "staticcheck"}})
	}
	if raced := append(slices.Clone(together), alone...); len(raced) > 0 {
		compiled.jobs = append(compiled.jobs, raceCompiled(raced))
	}
	// These need whole CPUs and have deadlines: next to labs they would break the labs'
	// tests, and if they yielded to them they would fail themselves.
	computes := lane{name: "computes"}
	if len(together) > 0 {
		computes.jobs = []job{raceTest(together, "2")}
	}
	computes.jobs = append(computes.jobs, simulate...)
	for _, p := range packages {
		for _, target := range p.fuzz {
			computes.jobs = append(computes.jobs, goTest(target, []string{p.name}, "-run", "^$", "-fuzz", only([]string{target}), "-fuzztime", "6s",
				"-fuzzminimizetime", "20x")) // by default it may take all of the time
		}
	}
	if len(alone) > 0 {
		last.jobs = []job{raceTest(alone, "1")}
	}
	last.jobs = append(last.jobs, figures...) // a lab stays up once a test needs it
	return [][]lane{{components}, append(beside, guest, compiled), {computes}, {last}}
}

// apart separates the names that run later from the others.
func apart(names, later []string) (now, then []string) {
	for _, name := range names {
		if slices.Contains(later, name) {
			then = append(then, name)
		} else {
			now = append(now, name)
		}
	}
	return now, then
}

// verifyTest returns a job that runs a package's tests of "verify".
func verifyTest(pkg string, names []string) job {
	return goTest(pkg, []string{pkg}, "-tags", tags(modeVerify), "-run", only(names))
}

// goTest returns a job that runs packages' tests.
func goTest(name string, packages []string, flags ...string) job {
	command := append([]string{"go", "test", "-json", "-vet=off", "-timeout", "80m"}, flags...)
	for _, p := range packages {
		command = append(command, module+p)
	}
	return job{name: name, command: command, events: true}
}

// simulationTest returns a job that runs a package's simulations.
func simulationTest(pkg string) job {
	j := goTest("simulations", []string{pkg}, "-run", simulations)
	j.command = append([]string{"env", fmt.Sprintf("MESHTRIAL_SIMULATIONS=%d", simulated[pkg])}, j.command...)
	return j
}

// raceTest returns a job that runs them with the race detector, which requires a C
// compiler. It omits packages that start no goroutines, most of which simulate for minutes.
func raceTest(packages []string, parallel string) job {
	j := goTest("race detector", packages, "-race", "-p", parallel, "-skip", simulations)
	j.command, j.needs = append([]string{"env", "CGO_ENABLED=1"}, j.command...), "gcc"
	return j
}

// raceCompiled compiles those tests without running any.
func raceCompiled(packages []string) job {
	j := job{name: "compiled for the race detector", needs: "gcc",
		command: []string{"env", "CGO_ENABLED=1", "go", "test", "-vet=off", "-race", "-p", "1", "-exec", "true"}}
	for _, p := range packages {
		j.command = append(j.command, module+p)
	}
	return j
}

// only returns the pattern for exactly these tests.
func only(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// laneOf returns the lane on whose lab a package's tests run; "" if there is none.
func laneOf(pkg string) string {
	for _, l := range labLanes {
		if slices.ContainsFunc(l.packages, func(name string) bool { return belongs(pkg, name) }) {
			return l.name
		}
	}
	return ""
}

func belongs(pkg, name string) bool {
	return pkg == name || strings.HasSuffix(name, "/") && strings.HasPrefix(pkg, name)
}

// inOrder sorts packages in the order of names they belong to; others come last.
func inOrder(packages, names []string) []string {
	place := func(pkg string) int {
		i := slices.IndexFunc(names, func(name string) bool { return belongs(pkg, name) })
		if i < 0 {
			i = len(names)
		}
		return i
	}
	return slices.SortedStableFunc(slices.Values(packages), func(a, b string) int { return place(a) - place(b) })
}

// listPackages lists the packages with tests.
func listPackages(ctx context.Context) ([]goPackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f",
		`{{.ImportPath}} {{.Dir}}{{range .GoFiles}} {{.}}{{end}}{{range .IgnoredGoFiles}} {{.}}{{end}}{{range .TestGoFiles}} {{.}}{{end}}{{range .XTestGoFiles}} {{.}}{{end}}`, "./...")
	cmd.Stderr = os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var out []goPackage
	for line := range strings.Lines(string(listed)) {
		fields := strings.Fields(line)
		p := goPackage{name: short(fields[0])}
		tested := false
		for _, file := range fields[2:] {
			text, err := os.ReadFile(filepath.Join(fields[1], file))
			if err != nil {
				return nil, err
			}
			p.concurrent = p.concurrent || startsGoroutines.Match(text)
			if strings.HasSuffix(file, "_test.go") {
				tested = true
				p.read(text)
			}
		}
		if tested {
			out = append(out, p)
		}
	}
	return out, nil
}

var (
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	// startsGoroutines matches how a file starts goroutines, directly or in a group.
	// Parallel tests do not count: those of pure packages simulate for minutes, and share
	// nothing.
	startsGoroutines = regexp.MustCompile(`(?m)^\s*go (func\b|\w)|\.Go\(`)
	fuzzFunc         = regexp.MustCompile(`(?m)^func (Fuzz[A-Z]\w*)\(f \*testing\.F\)`)
)

// read records the contents of a test file.
func (p *goPackage) read(text []byte) {
	names := func(pattern *regexp.Regexp) (out []string) {
		for _, found := range pattern.FindAllSubmatch(text, -1) {
			out = append(out, string(found[1]))
		}
		return out
	}
	switch first, _, _ := strings.Cut(string(text), "\n"); first {
	case "//go:build " + tagOf[modeTest]:
		p.integration = append(p.integration, names(testFunc)...)
	case "//go:build " + tagOf[modeVerify]:
		p.verify = append(p.verify, names(testFunc)...)
	default:
		p.fuzz = append(p.fuzz, names(fuzzFunc)...)
		for _, name := range names(testFunc) {
			if strings.HasPrefix(name, "TestSimulation") {
				p.simulates = true
			} else {
				p.plain = append(p.plain, name)
			}
		}
	}
}

package main

import (
	"slices"
	"strings"
	"testing"
)

// repositoryPackages are those of this repository.
func repositoryPackages(t *testing.T) []goPackage {
	t.Helper()
	t.Chdir("../..")
	packages, err := listPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// Every package with tests is run once by `make test`, and every test of
// `make verify`, every fuzz target and every package under -race by that.
func TestPlansLeaveNothingOut(t *testing.T) {
	packages := repositoryPackages(t)
	run := map[string][]string{} // words of the commands, by package
	for mode := range tagOf {
		for _, stage := range makePlan(mode, packages, true) {
			for _, l := range stage {
				for _, j := range l.jobs {
					for _, word := range j.command {
						if name, ok := strings.CutPrefix(word, module); ok {
							run[mode+" "+name] = append(run[mode+" "+name], strings.Join(j.command, " "))
						}
					}
				}
			}
		}
	}
	integration, verify := 0, 0
	for _, p := range packages {
		if n := len(run[modeTest+" "+p.name]); n != 1 {
			t.Errorf("make test runs %s %d times", p.name, n)
		}
		commands := strings.Join(run[modeVerify+" "+p.name], "\n")
		for _, name := range slices.Concat(p.verify, p.fuzz) {
			if !strings.Contains(commands, name) {
				t.Errorf("make verify does not run %s of %s", name, p.name)
			}
		}
		if !strings.Contains(commands, "-race") {
			t.Errorf("make verify does not run %s under -race", p.name)
		}
		verify += len(p.verify)
		if p.integration {
			integration++
		}
	}
	if integration < 8 || verify < 5 {
		t.Errorf("%d packages with tests on labs, %d tests of make verify", integration, verify)
	}
}

// What runs undisturbed is a test of verify, and runs in the last stage only.
func TestUndisturbed(t *testing.T) {
	packages := repositoryPackages(t)
	stages := makePlan(modeVerify, packages, true)
	runsIn := func(name string) (in []int) {
		for i, stage := range stages {
			for _, l := range stage {
				for _, j := range l.jobs {
					if strings.Contains(strings.Join(j.command, " "), name) {
						in = append(in, i)
					}
				}
			}
		}
		return in
	}
	for pkg, names := range undisturbed {
		at := slices.IndexFunc(packages, func(p goPackage) bool { return p.name == pkg })
		for _, name := range names {
			if at < 0 || !slices.Contains(packages[at].verify, name) {
				t.Errorf("%s has no test %s of make verify", pkg, name)
			}
			if in := runsIn(name); !slices.Equal(in, []int{len(stages) - 1}) {
				t.Errorf("%s runs in stages %v of %d", name, in, len(stages))
			}
		}
	}
}

func TestLaneOf(t *testing.T) {
	for pkg, want := range map[string]string{"runner": "studies", "kinds/dataplane/trial": "istiod", "xds/fidelity": "istiod", "xds/stream": "", "lab/local": "", "kinds": ""} {
		if got := laneOf(pkg); got != want {
			t.Errorf("%s runs in lane %q, want %q", pkg, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	var p goPackage
	p.read([]byte("//go:build integration || verify\n\nfunc helper() {}\n"))
	if p.integration {
		t.Error("helpers count as tests")
	}
	p.read([]byte("//go:build integration\n\nfunc TestB(t *testing.T) {\n"))
	p.read([]byte("//go:build verify\n\nfunc TestC(t *testing.T) {\nfunc Testing() {}\n"))
	p.read([]byte("package d\n\nfunc FuzzD(f *testing.F) {\nfunc TestD(t *testing.T) {\n"))
	if !p.integration || !slices.Equal(p.verify, []string{"TestC"}) || !slices.Equal(p.fuzz, []string{"FuzzD"}) {
		t.Errorf("%+v", p)
	}
}

// A mode's tag stands beside those with which everything is compiled.
func TestTags(t *testing.T) {
	t.Setenv("GOFLAGS", "-trimpath -tags=a,b -mod=readonly")
	if got := tags(modeVerify); got != "verify,a,b" {
		t.Errorf("beside those of GOFLAGS: %s", got)
	}
	t.Setenv("GOFLAGS", "-trimpath")
	if got := tags(modeTest); got != "integration" {
		t.Errorf("without any: %s", got)
	}
}

package components

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fakeSource is a nested module with a program that needs no other module.
func fakeSource(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"go.mod":          "module " + sourceModule + "\n\ngo 1.26\n",
		"go.sum":          "",
		"hello/main.go":   program,
		"hello/data.txt":  "data",
		"hello/x_test.go": "package main\n",
	} {
		path = filepath.Join(dir, path)
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	}
	return dir
}

const helloProgram = "package main\n\nvar version string\n\nfunc main() { println(\"hello\", version) }\n"

// fakeBuilder builds the fake source as if it were kwok's.
func fakeBuilder(t *testing.T, source, cacheDir string, events *[]Event) *Builder {
	t.Helper()
	b, err := New(Options{CacheDir: cacheDir, SourceDir: source, Progress: func(e Event) { *events = append(*events, e) }})
	must.OK(t, err)
	b.goUnits = []goUnit{{name: "agent", packages: []string{"./hello"}, tags: "some", stamps: []string{"main.version=7"},
		links: []string{"pilot-agent"}, seconds: 1, compiled: 2}}
	return b
}

func TestGoBuild(t *testing.T) {
	source, cacheDir := fakeSource(t, helloProgram), t.TempDir()
	var events []Event
	b := fakeBuilder(t, source, cacheDir, &events)
	set, err := b.Ensure(t.Context(), "pilot-agent")
	must.OK(t, err)
	p, ok := set.Program("pilot-agent")
	if !ok {
		t.Fatal("the program is not in the set")
	}
	if out, err := exec.Command(p.Path).CombinedOutput(); err != nil || string(out) != "hello 7\n" {
		t.Errorf("it prints %q, %v; want its stamp", out, err)
	}
	if _, err := checkStatic(p.Path); err != nil {
		t.Error(err)
	}
	if v := set.Versions(); len(v) != 1 || v[0].Name != "pilot-agent" || !strings.HasPrefix(v[0].Binary, "sha256:") {
		t.Errorf("recorded as %+v", v)
	}
	if n := len(events); n == 0 || events[n-1].Phase != PhaseReady || events[n-1].Left != 0 {
		t.Errorf("events %+v do not end with ready and nothing left", events)
	}

	events = nil
	again, err := fakeBuilder(t, source, cacheDir, &events).Ensure(t.Context(), "pilot-agent")
	must.OK(t, err)
	if q, _ := again.Program("pilot-agent"); q.Path != p.Path || len(events) > 0 {
		t.Errorf("a second time it is at %s with events %+v, want the same place and none", q.Path, events)
	}
}

// A build is found again exactly as long as nothing it is made from changed.
func TestGoBuildKey(t *testing.T) {
	source := fakeSource(t, helloProgram)
	tools, err := findToolchain(t.Context(), source)
	must.OK(t, err)
	unit := goUnit{name: "u", packages: []string{"./hello"}, tags: "a", stamps: []string{"main.version=1"}}
	key := func(u goUnit) string {
		t.Helper()
		r, err := tools.recipe(u, nil)
		must.OK(t, err)
		return r.key()
	}
	first := key(unit)
	if key(unit) != first {
		t.Error("the key changes by itself")
	}
	for name, change := range map[string]func(u *goUnit){
		"tags": func(u *goUnit) { u.tags = "b" }, "stamps": func(u *goUnit) { u.stamps = nil }, "links": func(u *goUnit) { u.links = []string{"l"} },
	} {
		u := unit
		if change(&u); key(u) == first {
			t.Errorf("other %s, same key", name)
		}
	}
	for _, path := range []string{"hello/main.go", "hello/data.txt", "go.mod", "go.sum"} {
		path = filepath.Join(source, path)
		old, err := os.ReadFile(path)
		must.OK(t, err)
		must.OK(t, os.WriteFile(path, append(old, '\n'), 0o644))
		if key(unit) == first {
			t.Errorf("%s changed, same key", path)
		}
		must.OK(t, os.WriteFile(path, old, 0o644))
	}
	must.OK(t, os.WriteFile(filepath.Join(source, "hello/x_test.go"), []byte("package main\n\n"), 0o644))
	if key(unit) != first {
		t.Error("a test changed, and the key with it")
	}
}

func TestGoBuildFails(t *testing.T) {
	cacheDir := t.TempDir()
	var events []Event
	b := fakeBuilder(t, fakeSource(t, "package main\n\nfunc main() { undefinedThing() }\n"), cacheDir, &events)
	_, err := b.Ensure(t.Context(), "pilot-agent")
	if err == nil || !strings.Contains(err.Error(), "undefinedThing") {
		t.Errorf("error %v does not say what the compiler said", err)
	}
	nothingLeft(t, cache{dir: cacheDir})
}

func TestGoBuildCancelled(t *testing.T) {
	cacheDir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var events []Event
	// A program that Go's own cache cannot know, so that it is compiled.
	program := helloProgram + "\n// " + cacheDir + "\n"
	b := fakeBuilder(t, fakeSource(t, program), cacheDir, &events)
	b.options.Progress = func(e Event) { cancel() } // as soon as the compiler runs
	_, err := b.Ensure(ctx, "pilot-agent")
	if !errors.Is(err, context.Canceled) || errs.Code(err) != errs.CodeInterrupted {
		t.Errorf("error %v (code %d), want cancelled and 130", err, errs.Code(err))
	}
	nothingLeft(t, cache{dir: cacheDir})
}

// The whole group of processes ends with the context, not the first only.
func TestCommandEndsItsChildren(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w, err := os.Pipe()
	must.OK(t, err)
	cmd := command(ctx, "sh", "-c", "sleep 1000 & echo started; wait")
	cmd.Stdout = w // an *os.File: the child keeps it open as long as it lives
	must.OK(t, cmd.Start())
	w.Close()
	buf := make([]byte, 64)
	if n, err := r.Read(buf); err != nil || string(buf[:n]) != "started\n" {
		t.Fatalf("read %q, %v", buf[:n], err)
	}
	cancel()
	_ = cmd.Wait() // killed
	if n, err := r.Read(buf); n != 0 || err == nil {
		t.Errorf("read %q, %v after the end", buf[:n], err)
	} // and Read returned at all: the grandchild is gone too
}

func TestFindSource(t *testing.T) {
	source := fakeSource(t, helloProgram)
	t.Setenv("MESHTRIAL_SOURCE", source)
	if got, err := findSource(""); err != nil || got != source {
		t.Errorf("by environment: %s, %v", got, err)
	}
	t.Setenv("MESHTRIAL_SOURCE", t.TempDir())
	if _, err := findSource(""); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "MESHTRIAL_SOURCE") {
		t.Errorf("by wrong environment: %v", err)
	}
	if got, err := findSource(source); err != nil || got != source {
		t.Errorf("by option: %s, %v", got, err)
	}
	t.Setenv("MESHTRIAL_SOURCE", "")
	repository := t.TempDir()
	below := filepath.Join(repository, "a", "b")
	if err := errors.Join(os.MkdirAll(below, 0o755), os.MkdirAll(filepath.Join(repository, "lab", "components"), 0o755),
		os.Symlink(source, filepath.Join(repository, "lab", "components", "src"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	if got, err := findSource(""); err != nil || got != filepath.Join(repository, "lab", "components", "src") {
		t.Errorf("from below: %s, %v", got, err)
	}
	// What others can write is not compiled and run, unless it was named and is
	// its owner's alone.
	planted := filepath.Join(t.TempDir(), "shared")
	must.OK(t, errors.Join(os.MkdirAll(filepath.Join(planted, "lab", "components"), 0o755), os.CopyFS(filepath.Join(planted, "lab", "components", "src"), os.DirFS(source)), os.Chmod(planted, 0o777)))
	t.Chdir(planted)
	if _, err := findSource(""); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), planted+" (mode") || strings.Contains(errs.Hint(err), "MESHTRIAL_SOURCE") {
		t.Errorf("where everybody writes: %v, hint %q", err, errs.Hint(err))
	}
	if _, err := findSource(planted); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), planted+" (mode") {
		t.Errorf("where everybody writes, but named: %v", err)
	}
	must.OK(t, os.Chmod(planted, 0o755))
	if os.Geteuid() == 0 {
		must.OK(t, errors.Join(os.Chown(filepath.Join(planted, "lab", "components", "src"), 4242, 0), os.Chown(filepath.Join(planted, "lab", "components", "src", "go.mod"), 4242, 0)))
		if _, err := findSource(""); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "belongs to user 4242") || !strings.Contains(errs.Hint(err), "MESHTRIAL_SOURCE="+planted) {
			t.Errorf("another's: %v, hint %q", err, errs.Hint(err))
		}
		if got, err := findSource(planted); err != nil || got != filepath.Join(planted, "lab", "components", "src") {
			t.Errorf("another's that was named: %s, %v", got, err)
		}
	}
	t.Chdir(t.TempDir())
	if _, err := findSource(""); err == nil || !strings.Contains(errs.Hint(err), "MESHTRIAL_SOURCE") {
		t.Errorf("nowhere: %v", err)
	}
}

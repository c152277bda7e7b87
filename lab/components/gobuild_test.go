package components

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fakeSource is a module with a program that needs no other module.
func fakeSource(program string) fstest.MapFS {
	return fstest.MapFS{
		"go.mod":         {Data: []byte("module example.org/fake\n\ngo 1.26\n")},
		"go.sum":         {},
		"hello/main.go":  {Data: []byte(program)},
		"hello/data.txt": {Data: []byte("data")},
	}
}

const helloProgram = "package main\n\nvar version string\n\nfunc main() { println(\"hello\", version) }\n"

// fakeBuilder builds the fake source as if it were kwok's.
func fakeBuilder(t *testing.T, source fs.FS, cacheDir string, events *[]Event) *Builder {
	t.Helper()
	b, err := New(Options{CacheDir: cacheDir, Progress: func(e Event) { *events = append(*events, e) }})
	must.OK(t, err)
	b.source = source
	b.goUnits = []goUnit{{name: "agent", packages: []string{"./hello"}, tags: "some", stamps: []string{"main.version=7"},
		links: []string{"pilot-agent"}, seconds: 1, compiled: 2}}
	return b
}

func TestGoBuild(t *testing.T) {
	source, cacheDir := fakeSource(helloProgram), t.TempDir()
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
	if v := set.Versions(); len(v) != 1 || v[0].Name != "pilot-agent" || !strings.HasPrefix(v[0].Binary, "sha256:") || v[0].Compiler != runtime.Version() {
		t.Errorf("recorded as %+v", v)
	}
	if n := len(events); n == 0 || events[n-1].Phase != PhaseReady || events[n-1].Left != 0 {
		t.Errorf("events %+v do not end with ready and nothing left", events)
	}

	// An existing entry needs no compiler.
	t.Setenv("PATH", t.TempDir())
	events = nil
	again, err := fakeBuilder(t, source, cacheDir, &events).Ensure(t.Context(), "pilot-agent")
	must.OK(t, err)
	if q, _ := again.Program("pilot-agent"); q.Path != p.Path || len(events) > 0 {
		t.Errorf("a second time it is at %s with events %+v, want the same place and none", q.Path, events)
	}
}

// A build is found again exactly as long as none of its inputs changes.
func TestGoBuildKey(t *testing.T) {
	source := fakeSource(helloProgram)
	unit := goUnit{name: "u", packages: []string{"./hello"}, tags: "a", stamps: []string{"main.version=1"}}
	key := func(u goUnit) string {
		t.Helper()
		r, err := u.recipe(source, nil)
		must.OK(t, err)
		return r.key()
	}
	first := key(unit)
	if key(unit) != first {
		t.Error("the key changes by itself")
	}
	for name, change := range map[string]func(u *goUnit){
		"tags": func(u *goUnit) { u.tags = "b" }, "stamps": func(u *goUnit) { u.stamps = nil }, "links": func(u *goUnit) { u.links = []string{"l"} },
		"processor": func(u *goUnit) { u.arch = "arm64" },
	} {
		u := unit
		if change(&u); key(u) == first {
			t.Errorf("other %s, same key", name)
		}
	}
	for _, path := range []string{"hello/main.go", "hello/data.txt", "go.mod", "go.sum"} {
		old := source[path]
		source[path] = &fstest.MapFile{Data: append(slices.Clone(old.Data), '\n')}
		if key(unit) == first {
			t.Errorf("%s changed, same key", path)
		}
		source[path] = old
	}
}

func TestGoBuildFails(t *testing.T) {
	cacheDir := t.TempDir()
	var events []Event
	b := fakeBuilder(t, fakeSource("package main\n\nfunc main() { undefinedThing() }\n"), cacheDir, &events)
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
	// A program that Go's own cache cannot contain, so it must be compiled.
	program := helloProgram + "\n// " + cacheDir + "\n"
	b := fakeBuilder(t, fakeSource(program), cacheDir, &events)
	b.options.Progress = func(e Event) { cancel() } // as soon as the compiler is running
	_, err := b.Ensure(ctx, "pilot-agent")
	if !errors.Is(err, context.Canceled) || errs.Code(err) != errs.CodeInterrupted {
		t.Errorf("error %v (code %d), want cancelled and 130", err, errs.Code(err))
	}
	nothingLeft(t, cache{dir: cacheDir})
}

// The whole process group ends with the context, not only the first process.
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
	} // Read returned, so the grandchild is gone too
}

func TestWithoutGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cacheDir := t.TempDir()
	var events []Event
	_, err := fakeBuilder(t, fakeSource(helloProgram), cacheDir, &events).Ensure(t.Context(), "pilot-agent")
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(errs.Hint(err), "https://go.dev/dl") {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
	nothingLeft(t, cache{dir: cacheDir})
}

// The embedded archive matches the module src, without its tests.
func TestSourceArchiveIsCurrent(t *testing.T) {
	archive := txtar.Archive{Comment: []byte("Made from src by `make documents`.\n\n")}
	src := os.DirFS("src")
	must.OK(t, fs.WalkDir(src, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := fs.ReadFile(src, path)
		archive.Files = append(archive.Files, txtar.File{Name: path, Data: b})
		return err
	}))
	golden.File(t, "src.txtar", txtar.Format(&archive))
	for _, f := range archive.Files {
		if b, err := fs.ReadFile(embeddedSource(), f.Name); !golden.Updating() && (err != nil || !bytes.Equal(b, f.Data)) {
			t.Errorf("%s in the archive: %v, %d bytes, want %d", f.Name, err, len(b), len(f.Data))
		}
	}
}

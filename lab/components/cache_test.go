package components

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestMain also lets this test program run as a second builder in a separate
// process: see hang.
func TestMain(m *testing.M) {
	if dir := os.Getenv(hangEnv); dir != "" {
		hang(cache{dir: dir})
	}
	os.Exit(m.Run())
}

const hangEnv = "COMPONENTS_TEST_HANG"

// hang begins an entry, but never finishes it.
func hang(c cache) {
	r := textRecipe("hang", "whole")
	r.make = func(ctx context.Context, dir string) ([]Version, error) {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("ha"), 0o644); err != nil {
			return nil, err
		}
		fmt.Println("half")
		select {}
	}
	_, err := c.ensure(context.Background(), r)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// textRecipe makes an entry of one file.
func textRecipe(name, text string) recipe {
	return recipe{name: name, inputs: map[string]any{"text": text}, make: func(ctx context.Context, dir string) ([]Version, error) {
		return []Version{{Name: name, Version: "1"}}, os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644)
	}}
}

// leftovers lists the contents of a cache besides complete entries and locks.
func leftovers(t *testing.T, c cache) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(c.dir, "tmp", "*"))
	must.OK(t, err)
	entries, err := filepath.Glob(filepath.Join(c.dir, "entries", "*"))
	must.OK(t, err)
	for _, e := range entries {
		if _, ok := c.open(filepath.Base(e)); !ok {
			left = append(left, e)
		}
	}
	return left
}

func nothingLeft(t *testing.T, c cache) {
	t.Helper()
	if left := leftovers(t, c); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCacheKeepsWhatWasMade(t *testing.T) {
	c := cache{dir: t.TempDir()}
	r := textRecipe("thing", "hello")
	if _, ok := c.lookup(r); ok {
		t.Fatal("found before it was made")
	}
	first, err := c.ensure(t.Context(), r)
	must.OK(t, err)
	r.make = func(context.Context, string) ([]Version, error) {
		t.Error("made a second time")
		return nil, nil
	}
	second, err := c.ensure(t.Context(), r)
	must.OK(t, err)
	if second.dir != first.dir || len(second.Versions) != 1 || second.Versions[0].Name != "thing" {
		t.Errorf("second look found %+v, want %+v", second, first)
	}
	const sum = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello
	if got := second.digest("file"); got != sum {
		t.Errorf("digest %s, want %s", got, sum)
	}
	if _, ok := c.lookup(textRecipe("thing", "other")); ok {
		t.Error("other inputs found the same entry")
	}
	nothingLeft(t, c)
}

func TestCacheFailureLeavesNothing(t *testing.T) {
	c := cache{dir: t.TempDir()}
	boom := errors.New("boom")
	r := textRecipe("thing", "hello")
	good := r.make
	r.make = func(ctx context.Context, dir string) ([]Version, error) {
		locked := filepath.Join(dir, "locked")
		if err := errors.Join(os.Mkdir(locked, 0o755), os.WriteFile(filepath.Join(locked, "f"), nil, 0o644), os.Chmod(locked, 0o555)); err != nil {
			t.Error(err)
		}
		return nil, boom
	}
	if _, err := c.ensure(t.Context(), r); !errors.Is(err, boom) {
		t.Errorf("error %v, want boom", err)
	}
	if _, ok := c.lookup(r); ok {
		t.Error("a failed entry is found")
	}
	nothingLeft(t, c)
	// A maker that ignores its context must not leave an entry after it was
	// cancelled, either.
	ctx, cancel := context.WithCancel(t.Context())
	r.make = func(ctx context.Context, dir string) ([]Version, error) { cancel(); return good(ctx, dir) }
	if _, err := c.ensure(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want cancelled", err)
	}
	nothingLeft(t, c)
	r.make = good
	if _, err := c.ensure(t.Context(), r); err != nil {
		t.Errorf("after failures: %v", err)
	}
}

// linkedRecipe makes an entry with a file, a link to it and a link in a folder.
func linkedRecipe() recipe {
	r := textRecipe("thing", "hello")
	text := r.make
	r.make = func(ctx context.Context, dir string) ([]Version, error) {
		versions, err := text(ctx, dir)
		return versions, errors.Join(err, os.Symlink("file", filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "lib"), 0o755),
			os.WriteFile(filepath.Join(dir, "lib", "more"), []byte("more"), 0o644))
	}
	return r
}

// An entry that is no longer whole is made again. A change that keeps the size is
// detected on use: a mere lookup does not read files.
func TestCacheRemakesWhatWasChanged(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(e entry) error
		seen bool // without reading files
	}{
		"other text":      {func(e entry) error { return os.WriteFile(e.path("file"), []byte("jello"), 0o644) }, false},
		"other text deep": {func(e entry) error { return os.WriteFile(e.path("lib/more"), []byte("mole"), 0o644) }, false},
		"other text, the time set back": {func(e entry) error {
			info, err := os.Stat(e.path("file"))
			return errors.Join(err, os.WriteFile(e.path("file"), []byte("jello"), 0o644), os.Chtimes(e.path("file"), info.ModTime(), info.ModTime()))
		}, false},
		"another file": {func(e entry) error { return os.WriteFile(e.path("lib/libc.so.6"), nil, 0o644) }, false},
		"another link": {func(e entry) error { return os.Symlink("/bin/true", e.path("lib/runc")) }, false},
		"link elsewhere": {func(e entry) error {
			return errors.Join(os.Remove(e.path("link")), os.Symlink("/bin/true", e.path("link")))
		}, true},
		"link for file": {func(e entry) error {
			aside := filepath.Join(filepath.Dir(e.dir), "aside")
			return errors.Join(os.Rename(e.path("file"), aside), os.Symlink(aside, e.path("file")))
		}, true},
		"file for link": {func(e entry) error {
			return errors.Join(os.Remove(e.path("link")), os.WriteFile(e.path("link"), nil, 0o644))
		}, true},
		"mode":             {func(e entry) error { return os.Chmod(e.path("file"), fs.ModeSetuid|0o644) }, true},
		"a folder for all": {func(e entry) error { return os.Chmod(e.path("lib"), 0o777) }, false},
		"mode, for all":    {func(e entry) error { return os.Chmod(e.path("file"), 0o666) }, true},
		"truncated":        {func(e entry) error { return os.Truncate(e.path("file"), 1) }, true},
		"removed":          {func(e entry) error { return os.Remove(e.path("file")) }, true},
		"no record":        {func(e entry) error { return os.Remove(e.path("entry.json")) }, true},
		"garbage":          {func(e entry) error { return os.WriteFile(e.path("entry.json"), []byte("{"), 0o644) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			store, r := cache{dir: t.TempDir()}, linkedRecipe()
			e, err := store.ensure(t.Context(), r)
			must.OK(t, err)
			must.OK(t, c.harm(e))
			if _, ok := store.lookup(r); ok == c.seen {
				t.Errorf("found without reading: %v", ok)
			}
			if _, ok, why := store.verified(r); ok || why == nil && !c.seen {
				t.Errorf("taken for whole, %v", why)
			}
			if _, ok, _ := (cache{dir: store.dir, recorded: true}).verified(r); ok == c.seen {
				t.Errorf("with what is recorded: found %v", ok)
			}
			e, err = store.ensure(t.Context(), r)
			must.OK(t, err)
			if b, err := os.ReadFile(e.path("link")); err != nil || string(b) != "hello" || e.verify() != nil {
				t.Errorf("remade as %q, %v, %v", b, err, e.verify())
			}
		})
	}
}

// Under an umask that permits group writes, an entry is still writable only by
// its owner.
func TestCacheSealsForItsOwner(t *testing.T) {
	store, r := cache{dir: t.TempDir()}, linkedRecipe()
	made := r.make
	r.make = func(ctx context.Context, dir string) ([]Version, error) {
		versions, err := made(ctx, dir)
		return versions, errors.Join(err, os.Chmod(filepath.Join(dir, "lib"), 0o777), os.Chmod(filepath.Join(dir, "file"), 0o775), os.Chmod(filepath.Join(dir, "lib", "more"), 0o666))
	}
	e, err := store.ensure(t.Context(), r)
	must.OK(t, err)
	for name, want := range map[string]fs.FileMode{"lib": 0o755, "file": 0o755, "lib/more": 0o644} {
		if info, err := os.Stat(e.path(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := e.verify(); err != nil {
		t.Error(err)
	}
}

// An entry stored under another entry's name does not count.
func TestCacheEntryUnderAnotherName(t *testing.T) {
	store := cache{dir: t.TempDir()}
	good, other := textRecipe("thing", "hello"), textRecipe("thing", "other")
	e, err := store.ensure(t.Context(), other)
	must.OK(t, err)
	must.OK(t, os.Rename(e.dir, filepath.Join(store.dir, "entries", "thing-"+good.key())))
	if _, ok := store.lookup(good); ok {
		t.Error("found")
	}
}

// An image's archive is read before it is imported.
func TestVerifyImage(t *testing.T) {
	store := cache{dir: t.TempDir()}
	e, err := store.ensure(t.Context(), recipe{name: "image_x", make: func(_ context.Context, dir string) ([]Version, error) {
		return nil, os.WriteFile(filepath.Join(dir, "image.tar"), []byte("archive"), 0o644)
	}})
	must.OK(t, err)
	image := Image{Ref: "x:1", Path: e.path("image.tar")}
	if err := image.Verify(); err != nil {
		t.Error(err)
	}
	must.OK(t, os.WriteFile(image.Path, []byte("ARCHIVE"), 0o644))
	if err := image.Verify(); err == nil || !strings.Contains(err.Error(), "x:1: ") || !strings.Contains(errs.Hint(err), e.dir) {
		t.Errorf("%v, hint %q", err, errs.Hint(err))
	}
}

func TestCacheRaceOfGoroutines(t *testing.T) {
	c := cache{dir: t.TempDir()}
	var made, waited atomic.Int32
	var all sync.WaitGroup
	release := make(chan struct{})
	for range 8 {
		all.Go(func() {
			r := textRecipe("thing", "hello")
			text := r.make
			r.make = func(ctx context.Context, dir string) ([]Version, error) {
				made.Add(1)
				<-release // until all others are waiting
				return text(ctx, dir)
			}
			r.wait = func() {
				if waited.Add(1) == 7 {
					close(release)
				}
			}
			if _, err := c.ensure(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times, want once", made.Load())
	}
}

func TestCacheBuilderKilled(t *testing.T) {
	c := cache{dir: t.TempDir()}
	self, err := os.Executable()
	must.OK(t, err)
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), hangEnv+"="+c.dir), os.Stderr
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "half\n" {
		t.Fatalf("helper said %q, %v", line, err)
	}
	r := textRecipe("hang", "whole")
	if _, ok := c.lookup(r); ok {
		t.Error("found while it is being made")
	}
	// While another builder works, the wait ends with the context.
	ctx, cancel := context.WithCancel(t.Context())
	r.wait = cancel
	if _, err := c.ensure(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting ended with %v, want cancelled", err)
	}
	must.OK(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	if _, ok := c.lookup(r); ok {
		t.Error("found after its maker was killed")
	}
	if left := leftovers(t, c); len(left) != 1 {
		t.Errorf("a killed maker left %v; this test wants it to leave its folder", left)
	}
	must.OK(t, must.Err(c.ensure(t.Context(), textRecipe("another", "entry"))))
	if left := leftovers(t, c); len(left) > 0 {
		t.Errorf("making another entry left behind: %v", left)
	}
	r.wait = nil
	e, err := c.ensure(t.Context(), r)
	must.OK(t, err)
	if b, err := os.ReadFile(e.path("file")); err != nil || string(b) != "whole" {
		t.Errorf("made as %q, %v", b, err)
	}
	nothingLeft(t, c)
}

func TestCachePrune(t *testing.T) {
	c := cache{dir: t.TempDir()}
	for i := range 5 {
		must.OK(t, must.Err(c.ensure(t.Context(), textRecipe("thing", fmt.Sprint(i)))))
	}
	other, err := c.ensure(t.Context(), textRecipe("thing-else", "x"))
	must.OK(t, err)
	must.OK(t, c.prune("thing", 2))
	left, err := filepath.Glob(filepath.Join(c.dir, "entries", "thing-*"))
	if err != nil || len(left) != 3 {
		t.Errorf("left %v (%v), want 2 of thing and %s", left, err, other.dir)
	}
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o644))
	_, err := cache{dir: file}.ensure(t.Context(), textRecipe("thing", "x"))
	if err == nil || !strings.Contains(err.Error(), "cache of components") {
		t.Errorf("error %v does not name the cache", err)
	}
}

// Anyone who can write to the cache can make root run arbitrary programs.
func TestCacheOfOthers(t *testing.T) {
	given := t.TempDir()
	if got, err := CacheDir(filepath.Join(given, "not-yet")); err != nil || got != filepath.Join(given, "not-yet") {
		t.Errorf("%s, %v", got, err)
	}
	t.Setenv("MESHTRIAL_CACHE", given)
	must.OK(t, os.Chmod(given, 0o777))
	_, err := New(Options{})
	if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "cache of components: "+given+" (mode") || !strings.Contains(errs.Hint(err), "MESHTRIAL_CACHE") {
		t.Errorf("%v, hint %q", err, errs.Hint(err))
	}
	if _, err := (cache{dir: given}).ensure(t.Context(), textRecipe("thing", "x")); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a cache that became everybody's: %v", err)
	}
	must.OK(t, os.Chmod(given, 0o755))
	if os.Geteuid() == 0 {
		must.OK(t, os.Chown(given, 4242, 0))
		if _, err := New(Options{}); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), given+" belongs to user 4242") {
			t.Errorf("another's: %v", err)
		}
	}
}

package local

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fakeStore returns a store as containerd leaves it.
func fakeStore(t *testing.T) imageStore {
	t.Helper()
	s := imageStore{t.TempDir()}
	put(t, s.blobs()+"/aa", "manifest")
	put(t, s.snapshots()+"/1/fs/usr/bin/envoy", "envoy")
	for live := range s.databases() {
		put(t, live, "database")
	}
	return s
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestStoreGoesBackToWhatWasSaved(t *testing.T) {
	s := fakeStore(t)
	if _, why, err := s.restore(); !errors.Is(why, errStoreEmpty) || err != nil {
		t.Fatalf("before the first save: %v, %v", why, err)
	}
	s = fakeStore(t)
	want := map[string]string{"image:1": "sha256:1"}
	must.OK(t, s.save(want))
	// A lab works in it and dies.
	put(t, s.blobs()+"/bb", "pulled")
	put(t, s.snapshots()+"/2/fs/scratch", "of a container")
	for live := range s.databases() {
		put(t, live, "half-written")
	}
	images, why, err := s.restore()
	if why != nil || err != nil || images["image:1"] != "sha256:1" {
		t.Fatalf("%v, %v, %v", images, why, err)
	}
	for live := range s.databases() {
		if data, _ := os.ReadFile(live); string(data) != "database" {
			t.Errorf("%s holds %q", live, data)
		}
	}
	for _, gone := range []string{s.blobs() + "/bb", s.snapshots() + "/2"} {
		if _, err := os.Stat(gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
}

func TestStoreThatWasDamagedIsEmptied(t *testing.T) {
	for name, damage := range map[string]func(s imageStore) error{
		"a blob is gone": func(s imageStore) error { return os.Remove(s.blobs() + "/aa") },
		"a blob is cut":  func(s imageStore) error { return os.Truncate(s.blobs()+"/aa", 3) },
		"a file is gone": func(s imageStore) error { return os.Remove(s.snapshots() + "/1/fs/usr/bin/envoy") },
		"a file grew": func(s imageStore) error {
			return os.WriteFile(s.snapshots()+"/1/fs/usr/bin/envoy", []byte("longer"), 0o600)
		},
		"a layer is gone":      func(s imageStore) error { return os.RemoveAll(s.snapshots() + "/1") },
		"a mode changed":       func(s imageStore) error { return os.Chmod(s.snapshots()+"/1/fs/usr/bin/envoy", 0o755) },
		"a database is cut":    func(s imageStore) error { return os.Truncate(filepath.Join(s.dir, "saved", "meta.db"), 1) },
		"a database is gone":   func(s imageStore) error { return os.Remove(filepath.Join(s.dir, "saved", "snapshots.db")) },
		"contents.json is cut": func(s imageStore) error { return os.Truncate(s.contents(), 10) },
		"power was lost, and a file has the right size but no contents": func(s imageStore) error {
			state := saved{}
			data, err := os.ReadFile(s.contents())
			if err == nil {
				err = json.Unmarshal(data, &state)
			}
			state.Boot = "another"
			return errors.Join(err, writeJSON(s.contents(), state), os.WriteFile(s.snapshots()+"/1/fs/usr/bin/envoy", make([]byte, len("envoy")), 0o600))
		},
		"containerd's root is gone": func(s imageStore) error { return os.RemoveAll(s.root()) },
	} {
		s := fakeStore(t)
		must.OK(t, s.save(map[string]string{"image:1": "sha256:1"}))
		must.OK(t, damage(s))
		images, why, err := s.restore()
		if err != nil || why == nil || len(images) > 0 {
			t.Errorf("%s: %v, %v, %v", name, images, why, err)
		}
		left, err := list(s.root())
		if err != nil || len(left) > 0 {
			t.Errorf("%s: left %q, %v", name, left, err)
		}
	}
}

func TestMissing(t *testing.T) {
	want := []components.Image{{Ref: "a", Digest: "1"}, {Ref: "b", Digest: "2"}, {Ref: "d"}}
	got := missing(want, map[string]string{"a": "1", "b": "old", "d": ""})
	if len(got) != 2 || got[0].Ref != "b" || got[1].Ref != "d" {
		t.Errorf("%+v", got)
	}
}

func TestStoresAreNotShared(t *testing.T) {
	cache := t.TempDir()
	first, lock, err := lockImageStore(cache)
	must.OK(t, err)
	second, other, err := lockImageStore(cache)
	if err != nil || first.dir == second.dir {
		t.Errorf("%s and %s, %v", first.dir, second.dir, err)
	}
	lock.Close()
	third, again, err := lockImageStore(cache)
	if err != nil || third.dir != first.dir {
		t.Errorf("a free store is not used again: %s, %v", third.dir, err)
	}
	other.Close()
	again.Close()
}

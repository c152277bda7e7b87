package detached

import (
	"archive/tar"
	"bytes"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/run/detached/detachedtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// runDir creates a folder with files.
func runDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	detachedtest.Write(t, dir, files)
	return dir
}

var files = map[string]string{"machine.json": "{}\n", "trials.jsonl": strings.Repeat("{}\n", 40000), "hist/a.hlog": "#", "evidence/deep/b": ""}

func packed(t *testing.T, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	must.OK(t, Pack(&out, dir))
	return out.Bytes()
}

func TestArchive(t *testing.T) {
	data, to := packed(t, runDir(t, files)), filepath.Join(t.TempDir(), "runs", "fetched")
	must.OK(t, Unpack(bytes.NewReader(data), to))
	got := detachedtest.Contents(t, to)
	for name, text := range files {
		if got[name] != text {
			t.Errorf("%s is %.20q", name, got[name])
		}
	}
	if len(got) != len(files) {
		t.Errorf("there are %d files", len(got))
	}
	if err := Unpack(bytes.NewReader(data), to); err == nil {
		t.Error("a run directory was written over")
	}
}

// A truncated archive leaves nothing behind.
func TestArchiveBreaksOff(t *testing.T) {
	data, parent := packed(t, runDir(t, files)), t.TempDir()
	for n := 0; n <= bytes.LastIndex(data, []byte(endName)); n += 777 { // truncation after that point adds no new cases
		if err := Unpack(bytes.NewReader(data[:n]), filepath.Join(parent, "run")); err == nil {
			t.Fatalf("%d of %d bytes are taken for the whole", n, len(data))
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A fetched run survives a power loss: every file and folder is made durable, then its
// name. If one cannot be, nothing is fetched.
func TestUnpackIsDurable(t *testing.T) {
	defer func(was func(*os.File) error) { syncFile = was }(syncFile)
	data := packed(t, runDir(t, files))
	want := []string{".fetch-", "a.hlog", "b", "deep", "evidence", "hist", "machine.json", "trials.jsonl"}
	for fails := range len(want) + 2 {
		parent, broken := t.TempDir(), errors.New("no")
		to := filepath.Join(parent, "run")
		var before, after []string
		syncFile = func(f *os.File) error {
			name := filepath.Base(f.Name())
			if i := strings.Index(name, ".fetch-"); i >= 0 {
				name = ".fetch-"
			}
			if _, err := os.Stat(to); err == nil {
				after = append(after, name)
			} else {
				before = append(before, name)
			}
			if len(before)+len(after) == fails {
				return broken
			}
			return f.Sync()
		}
		err := Unpack(bytes.NewReader(data), to)
		if fails > 0 {
			if left, readErr := os.ReadDir(parent); !errors.Is(err, broken) || readErr != nil || fails <= len(want) && len(left) > 0 {
				t.Errorf("number %d fails: %v, and %v is left", fails, err, left)
			}
			continue
		}
		slices.Sort(before)
		if err != nil || !slices.Equal(before, want) || !slices.Equal(after, []string{filepath.Base(parent)}) {
			t.Errorf("made durable: %v, then %v; %v", before, after, err)
		}
	}
}

func TestUnpackRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		entries []tar.Header
		want    string
	}{
		"outside":               {[]tar.Header{{Typeflag: tar.TypeReg, Name: "../a"}}, "lies outside"},
		"absolute":              {[]tar.Header{{Typeflag: tar.TypeReg, Name: "/etc/a"}}, "lies outside"},
		"a folder outside":      {[]tar.Header{{Typeflag: tar.TypeDir, Name: "a/../../b/"}}, "lies outside"},
		"a link":                {[]tar.Header{{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc"}}, "neither a file nor a folder"},
		"a hard link":           {[]tar.Header{{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}}, "neither a file nor a folder"},
		"a device":              {[]tar.Header{{Typeflag: tar.TypeChar, Name: "a"}}, "neither a file nor a folder"},
		"twice":                 {[]tar.Header{{Typeflag: tar.TypeReg, Name: "a"}, {Typeflag: tar.TypeReg, Name: "a"}}, "exists"},
		"in a folder not there": {[]tar.Header{{Typeflag: tar.TypeReg, Name: "a/b"}}, "no such file"},
		"no end":                {[]tar.Header{{Typeflag: tar.TypeReg, Name: "a"}}, "is truncated"},
	} {
		var data bytes.Buffer
		w := tar.NewWriter(&data)
		for _, h := range c.entries {
			must.OK(t, w.WriteHeader(&h))
		}
		must.OK(t, w.Close())
		parent := t.TempDir()
		if err := Unpack(&data, filepath.Join(parent, "run")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%s: left: %v, %v", name, left, err)
		}
	}
}

// For any input, nothing outside the folder is written, and a created folder matches the
// archive.
func FuzzUnpack(f *testing.F) {
	dir := f.TempDir()
	must.OK(f, os.WriteFile(filepath.Join(dir, "machine.json"), []byte("{}"), 0o600))
	var data bytes.Buffer
	must.OK(f, Pack(&data, dir))
	f.Add(data.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		err := Unpack(bytes.NewReader(data), filepath.Join(parent, "a", "run"))
		left, readErr := os.ReadDir(filepath.Join(parent, "a"))
		if readErr != nil || err != nil && len(left) > 0 || err == nil && (len(left) != 1 || left[0].Name() != "run") {
			t.Errorf("%v: left %v, %v", err, left, readErr)
		}
		if beside, err := os.ReadDir(parent); err != nil || len(beside) != 1 {
			t.Errorf("beside it: %v, %v", beside, err)
		}
	})
}

// The role serves the archive and removes the folder. It rejects a folder with a link in
// it.
func TestServer(t *testing.T) {
	dir := runDir(t, files)
	server := &Server{Dir: dir, Alive: jsonhttp.NewAlive(time.Hour)}
	web := httptest.NewServer(server.handler())
	defer web.Close()
	client := jsonhttp.Client{BaseURL: web.URL, Name: "results", MaxAnswer: maxAnswer}
	fetch := func(to string) error {
		body, err := client.Stream(t.Context(), archivePath)
		if err != nil {
			return err
		}
		defer body.Close()
		return Unpack(body, to)
	}
	to := filepath.Join(t.TempDir(), "run")
	if err := fetch(to); err != nil || len(detachedtest.Contents(t, to)) != len(files) {
		t.Errorf("%v, %d files", err, len(detachedtest.Contents(t, to)))
	}
	must.OK(t, os.Symlink("/etc", filepath.Join(dir, "zlink")))
	if err := fetch(filepath.Join(t.TempDir(), "run")); err == nil {
		t.Error("a link is fetched")
	}
	must.OK(t, client.Do(t.Context(), "POST", removePath, nil, &struct{}{}))
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is still there")
	}
	if err := fetch(filepath.Join(t.TempDir(), "run")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("of a folder that is gone: %v", err)
	}
}

package debugfile_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/debugfile"
	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/must"
)

const id, otherID = "0102030405060708090a0b0c0d0e0f1011121314", "ff02030405060708090a0b0c0d0e0f1011121314"

// build builds the spinning program with symbols.
func build(t *testing.T, id string) string {
	t.Helper()
	return elftest.Spinner(t, "-ldflags", "-B 0x"+id)
}

// profileOf returns a profile of a binary of some build that exports only one
// function, with samples at many places in its code; and the available binaries.
func profileOf(t *testing.T, like, id string) (*profile.Profile, map[string]profile.ELF) {
	t.Helper()
	f, err := os.Open(like)
	must.OK(t, err)
	defer f.Close()
	e, err := profile.ReadELF(f)
	must.OK(t, err)
	var text strings.Builder
	for at := e.Text.Offset + 0x2000; at < e.Text.Offset+0x20000; at += 0x777 {
		text.WriteString("x 7/7 1.000000: 10101010 cpu-clock: \n\t" + strconv.FormatUint(at, 16) + " [unknown] (/bin/spinner)\n\n")
	}
	p, err := profile.ReadPerfScriptOffsets(strings.NewReader(text.String()), func(string) bool { return true })
	must.OK(t, err)
	files := map[string]profile.ELF{"/bin/spinner": {
		BuildID: id, Type: profile.TypeExports, Text: e.Text, Exports: map[string]uint64{"exported": 8}}}
	p.Judge(files)
	return p, files
}

func TestFinder(t *testing.T) {
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	path := build(t, id)
	tree := t.TempDir()
	at := debugfile.ByID(tree, id)
	must.OK(t, os.MkdirAll(filepath.Dir(at), 0o755))
	must.OK(t, os.Symlink(path, at))
	for name, test := range map[string]struct {
		paths []string
		ran   string
		named bool
		note  string
	}{
		"the file":           {[]string{path}, id, true, "of the same build id " + id},
		"its directory":      {[]string{filepath.Dir(path)}, id, true, "is named by"},
		"by build id":        {[]string{tree}, id, true, at},
		"below .build-id":    {[]string{filepath.Join(tree, ".build-id")}, id, true, at},
		"nothing at hand":    {nil, id, false, ""},
		"of another build":   {[]string{path}, otherID, false, "which has build id " + otherID},
		"nobody knows which": {[]string{path}, "", false, "does not say which build"},
	} {
		finder, err := debugfile.New(test.paths)
		must.OK(t, err)
		p, files := profileOf(t, path, test.ran)
		finder.Name(p)
		trust := p.Distrust(files)
		notes := strings.Join(p.Notes, "\n")
		if (trust.User > 0.9) != test.named || !test.named && trust.User > 0 || !strings.Contains(notes, test.note) || test.note == "" && notes != "" {
			t.Errorf("%s: %.2f named, notes %q", name, trust.User, notes)
		}
	}
}

func TestNewErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	must.OK(t, os.WriteFile(text, []byte("no binary"), 0o644))
	for _, path := range []string{text, filepath.Join(t.TempDir(), "missing")} {
		if _, err := debugfile.New([]string{path}); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", path, err)
		}
	}
}

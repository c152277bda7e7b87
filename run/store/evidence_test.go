package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestEvidence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	d, err := Create(path, record.Header{}, []byte("a\n"), []byte("b\n"))
	must.OK(t, err)
	defer d.Close()
	document := bytes.Repeat([]byte(`{"seen": "much the same"}`), 1000)
	must.OK(t, d.WriteEvidence("b000-t00", document))
	if got, err := ReadEvidence(path, "b000-t00"); err != nil || !bytes.Equal(got, document) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	file := filepath.Join(path, DirEvidence, "b000-t00.json.zst")
	if info, err := os.Stat(file); err != nil || info.Size() > 1000 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := ReadEvidence(path, "b000-t01"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a trial without evidence: %v", err)
	}
	for _, id := range []string{"", "../x", "b000/t00"} {
		if err := d.WriteEvidence(id, nil); err == nil {
			t.Errorf("trial %q was written", id)
		}
		if _, err := ReadEvidence(path, id); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("trial %q was read", id)
		}
	}
	for _, damage := range [][]byte{nil, []byte("no zstd"), {0x28, 0xb5, 0x2f, 0xfd}} {
		must.OK(t, os.WriteFile(file, damage, 0o600))
		if data, err := ReadEvidence(path, "b000-t00"); err == nil && len(data) > 0 {
			t.Errorf("damaged file %q gives %q", damage, data)
		}
	}
}

package store

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Files of two devices are distinct, unless their file systems have no device.
func TestParseLocks(t *testing.T) {
	got := parseLocks(strings.NewReader("1: FLOCK ADVISORY WRITE 7 fe:01:12 0 EOF\n2: FLOCK ADVISORY WRITE 7 00:2f:13 0 EOF\n3: FLOCK ADVISORY READ 7 fe:01:14 0 EOF"))
	for file, want := range map[inode]bool{inodeOf(0xfe, 1, 12): true, inodeOf(0xfe, 2, 12): false, inodeOf(0, 0x30, 13): true, inodeOf(0xfe, 1, 13): false, inodeOf(0xfe, 1, 14): false} {
		if got[file] != want {
			t.Errorf("%+v is locked: %v", file, got[file])
		}
	}
}

// A reader can tell that a run is being written, that it has a new trial, and whether its
// findings cover all its trials.
func TestGlance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run")
	d, err := Create(path, record.Header{Schema: record.Schema, RunID: "r"}, []byte("study"), []byte("resolved"))
	must.OK(t, err)
	if !ReadWriters().Have(path) {
		t.Error("a run that is open is not known to be written to")
	}
	before := Version(path)
	must.OK(t, d.Append(record.Trial{ID: "b000-t00"}))
	if n, err := CountTrials(path); n != 1 || err != nil {
		t.Errorf("%d trials, %v", n, err)
	}
	if Version(path) == before {
		t.Error("a trial leaves the version as it was")
	}
	if _, current, err := ReadFindings(path, 1, 1<<20); current || err != nil {
		t.Errorf("findings that are not there: %v, %v", current, err)
	}
	must.OK(t, d.WriteFindings(record.Findings{Schema: record.Schema, Study: "s", Validity: record.ValiditySummary{Trials: 1}}))
	if f, current, err := ReadFindings(path, 1, 1<<20); !current || f.Study != "s" || err != nil {
		t.Errorf("findings: %v, %v", current, err)
	}
	if _, current, _ := ReadFindings(path, 1, 10); current {
		t.Error("findings are read beyond the limit")
	}
	if _, current, _ := ReadFindings(path, 2, 1<<20); current {
		t.Error("findings from before the last trial count")
	}
	must.OK(t, d.Close())
	if ReadWriters().Have(path) {
		t.Error("a run that is closed is written to")
	}
}

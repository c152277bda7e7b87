package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

const secret = "line of somebody else's\nno newline at the end"

// packed returns a compressed file with one request.
func packed(t *testing.T) []byte {
	t.Helper()
	packer, err := zstd.NewWriter(nil)
	must.OK(t, err)
	defer packer.Close()
	return packer.EncodeAll([]byte("{}\n"), nil)
}

// full creates a run with a file of each kind.
func full(t *testing.T) string {
	t.Helper()
	path := measured(t)
	d, _, err := Resume(path, nil, 0)
	must.OK(t, err)
	id := trial(0).ID
	_, config := d.WriteConfig(id, "proxy.json", []byte("{}"))
	_, profile := d.WriteProfile(id, "cpu.pb.gz", []byte("profile"))
	_, requests := d.WriteRequests(id, packed(t))
	series, folder := d.Subdir(DirSeries)
	err = errors.Join(config, profile, requests, folder, d.WriteEvidence(id, []byte("{}")), d.WriteFindings(record.Findings{}),
		os.WriteFile(filepath.Join(series, "segment"), []byte("series"), 0o600), d.Close())
	must.OK(t, err)
	return path
}

// everything reads and writes all parts of a run, and returns what was rejected.
func everything(t *testing.T, path string) (refused []error, notes string) {
	t.Helper()
	id := trial(0).ID
	add := func(err error) {
		if err != nil {
			refused = append(refused, err)
		}
	}
	run, said, err := Load(t.Context(), path)
	add(err)
	for _, tr := range run.Trials {
		for _, c := range tr.Validity.Checks {
			said = append(said, c.Detail)
		}
	}
	_, err = ReadEvidence(path, id)
	add(err)
	for _, open := range []func() (*os.File, error){
		func() (*os.File, error) { return openFile(path, DirConfigs+"/"+id+"-proxy.json") },
		func() (*os.File, error) { return openFile(path, DirProfiles+"/"+id+"-cpu.pb.gz") },
		func() (*os.File, error) { return openFile(path, DirRequests+"/"+id+requestsSuffix) },
	} {
		file, err := open()
		add(err)
		if err == nil {
			file.Close()
		}
	}
	_, err = Folder(path, DirSeries)
	add(err)
	d, c, err := Resume(path, nil, 0)
	add(err)
	said = append(said, c.Notes...)
	if err == nil {
		next := trial(9)
		next.Hist, err = d.WriteHist(next.ID, hist(t, []int64{1}, []int64{1}))
		add(err)
		_, err = d.WriteConfig(next.ID, "proxy.json", []byte("{}"))
		add(err)
		_, err = d.WriteProfile(next.ID, "cpu.pb.gz", []byte("{}"))
		add(err)
		_, err = d.WriteRequests(next.ID, packed(t))
		add(err)
		_, err = d.Subdir(DirSeries)
		add(err)
		_, _ = d.Log().Write([]byte("a line\n"))
		add(errors.Join(d.WriteEvidence(next.ID, []byte("{}")), d.Append(next, changes(9, 1)...), d.WriteFindings(record.Findings{}), d.Close()))
	}
	return refused, strings.Join(said, "\n")
}

// An untrusted run directory cannot refer to other files of this machine: a link in place
// of any of its entries is not followed, whether or not its target exists, and whether it
// leads outside or stays inside.
func TestLinksAreNotFollowed(t *testing.T) {
	if refused, _ := everything(t, full(t)); refused != nil {
		t.Fatalf("a run without links: %v", refused)
	}
	id, whole := trial(0).ID, os.DirFS(full(t))
	for _, name := range []string{FileHeader, FileStudy, FileResolved, FileTrials, FileEvents, FileLog, FileFindings,
		DirHist, DirSeries, DirConfigs, DirProfiles, DirRequests, DirEvidence,
		DirHist + "/" + id + ".hlog", DirConfigs + "/" + id + "-proxy.json", DirProfiles + "/" + id + "-cpu.pb.gz",
		DirRequests + "/" + id + requestsSuffix, EvidenceFile(id), DirSeries + "/segment"} {
		for _, kind := range []string{"other", "itself", "nothing", "inside"} {
			path, outside := filepath.Join(t.TempDir(), "run"), t.TempDir()
			must.OK(t, os.CopyFS(path, whole))
			at, target := filepath.Join(path, name), filepath.Join(outside, "target")
			info, err := os.Stat(at)
			must.OK(t, err)
			var want fs.FileInfo
			switch {
			case kind == "inside":
				target = filepath.Join(path, "aside")
				err = os.Rename(at, target)
				want = info
			case kind == "itself":
				err = os.Rename(at, target) // intact, but elsewhere
				want = info
			case kind == "other" && info.IsDir():
				err = errors.Join(os.Mkdir(target, 0o755), os.RemoveAll(at))
			case kind == "other":
				err = errors.Join(os.WriteFile(target, []byte(secret), 0o600), os.Remove(at))
			default:
				err = os.RemoveAll(at)
			}
			must.OK(t, errors.Join(err, os.Symlink(target, at)))
			before := snapshot(t, target)
			refused, notes := everything(t, path)
			if after := snapshot(t, target); after != before {
				t.Errorf("%s, a link to %s (%s): the target was\n%s\nand is\n%s", name, kind, target, before, after)
			}
			if want != nil {
				if now, err := os.Stat(target); err != nil || now.Mode() != want.Mode() {
					t.Errorf("%s, a link to %s: another mode: %v", name, kind, err)
				}
			}
			if strings.Contains(notes, "somebody else") {
				t.Errorf("%s, a link to %s: told %q", name, kind, notes)
			}
			// Optional parts, and parts that are rewritten, may pass.
			said := notes
			for _, err := range refused {
				said += "\n" + err.Error()
				if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
					t.Errorf("%s, a link to %s: %v, code %d, hint %q", name, kind, err, errs.Code(err), errs.Hint(err))
				}
			}
			if name != FileFindings && !strings.Contains(said, "but a link") {
				t.Errorf("%s, a link to %s: not refused: %s", name, kind, said)
			}
		}
	}
}

// The directory itself may be reached through a link, like runs/latest.
func TestRunReachedByLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "latest")
	must.OK(t, os.Symlink(full(t), link))
	if refused, _ := everything(t, link); refused != nil {
		t.Error(refused)
	}
}

// snapshot returns all names and contents below path.
func snapshot(t *testing.T, path string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		out.WriteString(at + "\n")
		if err == nil && d.Type().IsRegular() {
			data, err := os.ReadFile(at)
			out.Write(data)
			return err
		}
		return err
	})
	must.OK(t, err)
	return out.String()
}

// A link with a missing target is not a valid place for a run, and is rejected before one
// starts.
func TestDanglingLinkIsNotVacant(t *testing.T) {
	link := filepath.Join(t.TempDir(), "run")
	must.OK(t, os.Symlink("nowhere", link))
	if err := Vacant(link); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Errorf("%v", err)
	}
}

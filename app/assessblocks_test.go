package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A snapshot of Prometheus is refused with the commands that assess it, up to the end of its newest block.
func TestBlocksOfPrometheus(t *testing.T) {
	snapshot := filepath.Join(t.TempDir(), "[my shop]") // not a pattern
	must.OK(t, os.Mkdir(snapshot, 0o755))
	for block, end := range map[string]string{"01A": "1796029200000", "01B": "1796022000000"} {
		must.OK(t, os.Mkdir(filepath.Join(snapshot, block), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(snapshot, block, "meta.json"), []byte(`{"ulid":"`+block+`","minTime":1796000000000,"maxTime":`+end+`}`), 0o600))
	}
	_, _, err := Assessment{}.FromFiles(t.Context(), []string{snapshot}, contents(nil))
	if !errors.Is(err, errBlocks) || errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--storage.tsdb.path='"+snapshot+"' ") || !strings.Contains(errs.Hint(err), "--prometheus-time 2026-11-30T09:00:00Z ") {
		t.Errorf("%v, %s", err, errs.Hint(err))
	}
	for name, text := range map[string]string{"meta.json": `{"ulid":"x"}`, "": "", "sub": `{"something":"else"}`} { // no folder of blocks
		dir := t.TempDir()
		if name == "sub" {
			must.OK(t, os.Mkdir(filepath.Join(dir, name), 0o755))
			name = "sub/meta.json"
		}
		if name != "" {
			must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		must.OK(t, refuseBlocks(dir))
	}
}

package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/rogpeppe/go-internal/testscript"
)

// cutFile removes the end of a file's last line.
func cutFile(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, []byte(strings.TrimRight(ts.ReadFile(args[0]), "\n")), 0o644))
}

// A profile that would fill the disk is rejected before anything starts.
func TestProfileIsBounded(t *testing.T) {
	for length, ok := range map[time.Duration]bool{10 * time.Second: true, time.Hour: false} {
		f := profileFlags{pid: 1, hz: 99, length: length, graph: perf.GraphDwarf, format: "text", kind: "cpu"}
		err := f.check(nil)
		if (err == nil) != ok || !ok && (errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "") {
			t.Errorf("%v: %v", length, err)
		}
	}
}

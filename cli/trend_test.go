package cli

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Scripts find runs that differ from each other by 3% (standard deviation). Folders before and
// after hold three runs of 400 and 600 µs of overhead; again holds three more of 400; flat holds
// 12 of 400 over as many days, one of them without a valid trial and one broken; step holds 27,
// the last three of 440 µs and with another Envoy; few holds 4. Folder others holds runs that
// differ in the kernel, in Envoy's version, in a setting, and in the study.
func TestRunsTogether(t *testing.T) {
	runs := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	started := time.Date(2026, 10, 1, 6, 0, 0, 0, time.UTC)
	write := func(name, text string, overhead float64, valid bool, change func(*record.Header)) {
		overhead *= math.Exp(0.03 * r.NormFloat64())
		writeSimulatedAs(t, filepath.Join(runs, name), text, 4, overhead, 0.01, valid, func(h *record.Header) {
			h.Started, h.Components = started, []record.Component{{Name: "envoy", Version: "1.36"}}
			started = started.Add(24 * time.Hour)
			change(h)
		})
	}
	as := func(*record.Header) {}
	newer := func(h *record.Header) { h.Components[0].Version = "1.37" }
	for i := range 3 {
		write(fmt.Sprintf("before/b%d", i), simulatedStudy, 400, true, as)
		write(fmt.Sprintf("again/g%d", i), simulatedStudy, 400, true, as)
		write(fmt.Sprintf("after/a%d", i), simulatedStudy, 600, true, newer)
	}
	write("others/kernel", simulatedStudy, 400, true, func(h *record.Header) { h.Machine.Kernel = "6.8" })
	write("others/envoy", simulatedStudy, 400, true, newer)
	write("others/setting", strings.Replace(simulatedStudy, "connections: 16", "connections: 32", 1), 400, true, as)
	write("others/study", strings.Replace(simulatedStudy, "name: simulated", "name: another", 1), 400, true, as)
	for i := range 12 {
		write(fmt.Sprintf("flat/f%02d", i), simulatedStudy, 400, i != 5, as)
	}
	must.OK(t, os.WriteFile(filepath.Join(runs, "flat/f07/machine.json"), []byte("nothing"), 0o600))
	for i := range 27 {
		overhead, change := 400.0, as
		if i >= 24 {
			overhead, change = 440, newer
		}
		write(fmt.Sprintf("step/s%02d", i), simulatedStudy, overhead, true, change)
	}
	for i := range 4 {
		write(fmt.Sprintf("few/w%d", i), simulatedStudy, 400, true, as)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/trend",
		Setup: func(env *testscript.Env) error {
			return os.CopyFS(env.WorkDir, os.DirFS(runs))
		},
		Cmds: scriptCommands{"exits": exits},
	})
}

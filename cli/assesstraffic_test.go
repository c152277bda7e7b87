package cli

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/run/store"
)

// slowRun creates a run directory with recorded series of an istiod whose
// pushes take 1 to 3 s from second 5 to 20.
func slowRun(ts *testscript.TestScript, _ bool, args []string) {
	r, err := signals.OpenRecorder(filepath.Join(ts.MkAbs(args[0]), store.DirSeries))
	ts.Check(err)
	begin := time.Now().Add(-time.Minute)
	for i := range 21 {
		fast, slow := 100+10*min(i, 5), 20*max(0, i-4)
		page := fmt.Sprintf("# TYPE %[1]s histogram\n%[1]s_bucket{le=\"1\"} %[2]d\n%[1]s_bucket{le=\"3\"} %[3]d\n%[1]s_bucket{le=\"+Inf\"} %[3]d\n%[1]s_sum %[3]d\n%[1]s_count %[3]d\n",
			signals.MetricLatency, fast, fast+slow)
		ts.Check(r.AppendPage(begin.Add(time.Duration(i)*time.Second), []byte(page), map[string]string{"pod": "istiod"}))
	}
	ts.Check(r.Close())
}

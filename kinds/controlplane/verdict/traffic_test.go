package verdict

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestJudgeTraffic(t *testing.T) {
	good := record.Traffic{Requests: 100, Completed: 90, Failed: map[string]int64{"status": 9}, Unfinished: 1, Attempts: 110, Unconnected: 8, Counted: 102, Connections: 5}
	for _, c := range []struct {
		name     string
		spoil    func(*record.Traffic)
		wait     float64
		bad      string
		warnings int
	}{
		{"good", func(*record.Traffic) {}, 0, "", 0},
		{"requests are missing", func(x *record.Traffic) { x.Completed = 80 }, 0, "traffic-account", 0},
		{"given up, with a connection or without", func(x *record.Traffic) { x.Attempts, x.GivenUp = 115, 7 }, 0, "", 0},
		{"more lines than were given up", func(x *record.Traffic) { x.Attempts, x.GivenUp = 120, 7 }, 0, "traffic-log", 0},
		{"lines are missing", func(x *record.Traffic) { x.Attempts = 100 }, 0, "traffic-log", 0},
		{"failures that the sidecar does not know", func(x *record.Traffic) { x.Residual = 3 }, 0, "", 1},
		{"all connections hang", func(*record.Traffic) {}, 5000, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := good
			c.spoil(&x)
			r := rulingOn(1)
			r.trial.Control.Traffic, r.seen.TrafficWaitUS = &x, c.wait
			r.traffic()
			bad, warnings := "", r.Validity().Warnings
			for _, check := range r.Validity().Checks {
				if !check.OK {
					bad += check.Name
				}
			}
			if bad != c.bad || len(warnings) != c.warnings {
				t.Errorf("failed: %q, warnings: %q", bad, warnings)
			}
		})
	}
}

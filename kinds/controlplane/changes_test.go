package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func TestChangeRate(t *testing.T) {
	for level, want := range map[string]string{
		"0.40": "0.4", "ramp:1:20:30s": "ramp:1:20:30s", "ramp:0:2.50:60s": "ramp:0:2.5:1m", "steps:1:10s,8:5s": "steps:1:10s,8:5s", "steps:1:1s, 0:500ms": "steps:1:1s,0:500ms",
	} {
		if got, c := changeRateLevel(level); c != nil || got != want {
			t.Errorf("%s: %s, %v", level, got, c)
		}
	}
	for level, want := range map[string]string{
		"0": "out of range", "-1": "", "1001": "out of range", "ramp:1:2": "not a rate", "ramp:0:0:1s": "makes no change", "ramp:1:2:0s": "out of range", "ramp:1:2:2h": "out of range",
		"ramp:x:2:1s": "", "steps:1": "", "steps:0:1s": "makes no change", "steps:": "number is missing", "wave:1:2": "not a rate", "steps:2000:1s": "out of range", "ramp:1:2:NaN": "", "ramp:NaN:2:1s": "",
		"steps:" + strings.Repeat("1:1s,", 100) + "1:1s": "more than 100 steps",
	} {
		if _, c := changeRateLevel(level); c == nil || !strings.Contains(c.Msg, want) || c.Hint == "" {
			t.Errorf("%.40s: %+v, want %s", level, c, want)
		}
	}
}

func TestChangeArrival(t *testing.T) {
	for level, want := range map[string]struct {
		kind  string
		burst int
	}{"uniform": {"uniform", 0}, "poisson": {"poisson", 0}, "burst": {"burst", 0}, "burst:25": {"burst", 25}} {
		text, c := arrivalLevel(level)
		kind, burst := Levels{ChangeArrival: text}.Arrival()
		if c != nil || text != level || kind != want.kind || burst != want.burst {
			t.Errorf("%s: %s, %s of %d, %v", level, text, kind, burst, c)
		}
	}
	for _, level := range []string{"", "burst:", "burst:0", "burst:x", "burst:1.5", "burst:40001", "uniform:2", "all"} {
		if _, c := arrivalLevel(level); c == nil || c.Hint == "" {
			t.Errorf("%q passes: %+v", level, c)
		}
	}
}

// TestChangeTime checks the number of changes and the time that they take.
func TestChangeTime(t *testing.T) {
	for _, c := range []struct {
		control, rate, arrival string
		changes                int
		time                   time.Duration
	}{
		{"{changes: 10}", "0.4", "uniform", 10, 25 * time.Second},
		{"{duration: 10s}", "2", "poisson", 20, 10 * time.Second},
		{"{changes: 10}", "2", "burst", 10, 0},
		{"{changes: 10}", "2", "burst:5", 10, 2500 * time.Millisecond},
		{"{changes: 11}", "2", "burst:5", 11, 5 * time.Second},
		{"{duration: 10s}", "ramp:0:10:10s", "uniform", 50, 10 * time.Second},
		{"{changes: 60}", "ramp:0:10:10s", "uniform", 60, 11 * time.Second},
		{"{duration: 20s}", "\"steps:1:10s,5:5s,0:1s\"", "uniform", 35, 15 * time.Second},
		{"{duration: 20s}", "\"steps:1:10s,5:1s\"", "uniform", 60, 20 * time.Second},
	} {
		p := controlPlan(t, "control: "+c.control+"\nsettings: {change_rate: "+c.rate+", change_arrival: \""+c.arrival+"\"}\n")
		cell := p.Cells[0]
		if n, long := ChangesIn(p.Study, cell), ChangeTime(p.Study, cell); n != c.changes || long != c.time {
			t.Errorf("%+v: %d changes in %v", c, n, long)
		}
	}
	if _, err := study.Parse([]byte(studytest.Minimal+"control: {changes: 20}\nsettings: {change_rate: \"steps:1:10s,0:1s\"}\n"), "x.yaml", nil); err == nil || !strings.Contains(err.Error(), "never reaches 20 changes") {
		t.Error(err)
	}
	s := &study.Study{Kind: study.ControlPlane, Section: defaults()}
	if got := ChangesIn(s, record.Cell{}); got != 10 {
		t.Error(got)
	}
}

package labtest

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// Failures caused by a busy machine are distinguished from errors: an account of threads
// is attributed to the machine only to the extent that its reader was delayed.
func TestOfTheMachine(t *testing.T) {
	const part = record.PartWorker
	for _, c := range []struct {
		name, check string
		threads     record.Threads
		want        bool
	}{
		{"a schedule that was late", "schedule-lag", record.Threads{}, true},
		{"requests that piled up", "backlog", record.Threads{}, true},
		{"a proxy that is missing", "proxy-present", record.Threads{UnsureS: 1}, false},
		{"read at once, and wrong", "threads-" + part, record.Threads{CPUS: 0.05, UnaccountedS: 0.002, UnsureS: 0.0003}, false},
		{"read slowly, and wrong by that", "threads-" + part, record.Threads{CPUS: 0.05, UnaccountedS: 0.004, UnsureS: 0.0045}, true},
		{"read slowly, and wrong by that the other way", "threads-" + part, record.Threads{CPUS: 0.05, UnaccountedS: -0.004, UnsureS: 0.0045}, true},
		{"read slowly, and wrong by far more", "threads-" + part, record.Threads{CPUS: 0.05, UnaccountedS: 0.02, UnsureS: 0.0045}, false},
		{"nearly idle, read slowly", "threads-" + part, record.Threads{CPUS: 0.02, UnaccountedS: 0.0015, UnsureS: 0.0008}, true},
		{"of another part", "threads-" + record.PartGenerator, record.Threads{CPUS: 0.05, UnaccountedS: 0.004, UnsureS: 0.0045}, false},
	} {
		trial := record.Trial{Threads: map[string]record.Threads{part: c.threads}}
		if got := OfTheMachine(trial, record.Check{Name: c.check}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// CPU of a scenario that was counted late is attributed to the machine up to a tenth of
// the timeline, and beyond that only if something else indicates a busy machine.
func TestCountedLate(t *testing.T) {
	for _, c := range []struct {
		name    string
		counted float64 // over 3 s
		lag     float64 // microseconds
		failed  string  // another failed check
		want    bool
	}{
		{"a little late", 2.8, 400, "", true},
		{"late on an idle machine", 2.4, 400, "", false},
		{"late, as requests were", 2.4, 10_001, "", true},
		{"late, as requests were by far", 2.4, 400, "schedule-lag", true},
		{"late beside what the mesh is to answer for", 2.4, 400, "steps", false},
		{"half of it missing on a busy machine", 1.4, 10_001, "schedule-lag", false},
		{"not counted on a busy machine", 0, 10_001, "schedule-lag", false},
	} {
		trial := record.Trial{Window: record.Window{Seconds: 3}, Scenario: &record.Scenario{CountedS: c.counted, Lag: record.LatencyAt(0.99, c.lag)}}
		for _, name := range []string{"schedule-lag", "steps"} {
			trial.Validity.Checks = append(trial.Validity.Checks, record.Check{Name: name, OK: name != c.failed})
		}
		counted := record.Check{Name: "counted"}
		trial.Validity.Checks = append(trial.Validity.Checks, counted)
		if got := OfTheMachine(trial, counted); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if OfTheMachine(record.Trial{}, record.Check{Name: "counted"}) {
		t.Error("a trial without a scenario counts as the machine's doing")
	}
}

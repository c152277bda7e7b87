package labtest

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// What a busy machine spoils is told from what is wrong: an account of threads counts
// as the machine's only as far as its reader was kept from reading.
func TestOfTheMachine(t *testing.T) {
	const part = record.PartWorker
	for _, c := range []struct {
		name, check string
		threads     record.Threads
		want        bool
	}{
		{"a schedule that was late", "schedule-lag", record.Threads{}, true},
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
	for counted, want := range map[float64]bool{2.4: true, 1.4: false, 0: false} {
		trial := record.Trial{Window: record.Window{Seconds: 3}, Scenario: &record.Scenario{CountedS: counted}}
		if got := OfTheMachine(trial, record.Check{Name: "counted"}); got != want {
			t.Errorf("counted over %g of 3 s: %v", counted, got)
		}
	}
	if OfTheMachine(record.Trial{}, record.Check{Name: "counted"}) {
		t.Error("a trial without a scenario counts as the machine's doing")
	}
}

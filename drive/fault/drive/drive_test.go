package drive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// recorder is an executor that records its calls.
type recorder struct {
	mu   sync.Mutex
	did  []string
	fail map[string]error  // by "begin NAME", "prove NAME", "prepare NAME", "end NAME"
	slow time.Duration     // of proofs
	then map[string]func() // called after it, by the same key
}

func (r *recorder) note(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, what)
	if then := r.then[what]; then != nil {
		then()
	}
	return r.fail[what]
}

func (r *recorder) Prepare(_ context.Context, o fault.Occurrence) (drive.Execution, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fail["prepare "+o.Name]; err != nil {
		return nil, err
	}
	return &execution{r, o.Name}, nil
}

type execution struct {
	r    *recorder
	name string
}

func (h *execution) Target() string              { return "pod of " + h.name }
func (h *execution) Begin(context.Context) error { return h.r.note("begin " + h.name) }
func (h *execution) End(ctx context.Context) error {
	return errors.Join(h.r.note("end "+h.name), ctx.Err())
}
func (h *execution) Prove(ctx context.Context) (string, error) {
	select {
	case <-time.After(h.r.slow):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return "seen", h.r.note("prove " + h.name)
}

func step(name string, at, lasting time.Duration) fault.Step {
	return fault.Step{Name: name, At: at, For: lasting, Action: &fault.Remove{Replicas: fault.Replicas{Service: name, Count: 1}}}
}

const ms = time.Millisecond

func run(t *testing.T, ctx context.Context, r *recorder, line fault.Timeline, sense drive.Sense) ([]record.Event, time.Time, error) {
	t.Helper()
	leakcheck.Goroutines(t)
	var events []record.Event
	start := time.Now().Add(20 * ms)
	err := drive.Driver{Executor: r, Sense: sense, Emit: func(e record.Event) { events = append(events, e) }}.Run(ctx, start, &line)
	return events, start, err
}

// On a busy machine steps run late, and so in another order than planned; the test then
// repeats the timeline. Steps that were on time keep the planned order.
func TestRunOnTime(t *testing.T) {
	leakcheck.Goroutines(t)
	const attempts = 20
	for attempt := 1; ; attempt++ {
		stood := make(chan time.Duration, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { stood <- stoodStill(ctx) }()
		wrong, late := stepsOnTime(t)
		cancel()
		late = max(late, <-stood)
		if len(wrong) == 0 {
			return
		}
		if late < 20*ms || attempt == attempts {
			t.Fatalf("late by %v at most: %s", late, strings.Join(wrong, "; "))
		}
		t.Logf("once more, since something was late by %v: %s", late, strings.Join(wrong, "; "))
	}
}

// stoodStill returns the longest time for which this process did not run, until ctx ends.
func stoodStill(ctx context.Context) time.Duration {
	longest, last := time.Duration(0), time.Now()
	for ctx.Err() == nil {
		time.Sleep(ms)
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
	return longest
}

// stepsOnTime executes a timeline. It returns the deviations from the plan, and the
// lateness of the latest step.
func stepsOnTime(t *testing.T) (wrong []string, late time.Duration) {
	t.Helper()
	is := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	r := &recorder{slow: 180 * ms}
	events, start, err := run(t, t.Context(), r, fault.Timeline{Duration: 800 * ms, Steps: []fault.Step{
		step("stays", 60*ms, 0), step("short", 120*ms, 90*ms), step("last", 400*ms, 0),
	}}, nil)
	must.OK(t, err)
	// short begins while stays is being proved. It ends after its own proof, which takes
	// longer than its duration.
	want := "begin stays, begin short, prove stays, prove short, end short, begin last, prove last, end last, end stays"
	if got := strings.Join(r.did, ", "); got != want {
		is("did %s", got)
	}
	if len(events) != 6 {
		is("%d events", len(events))
		return wrong, late
	}
	for i, e := range events {
		if e.Change != i || e.Kind != drive.EventKind || e.Error != "" {
			t.Errorf("event %d: %+v", i, e)
		}
		if e.Op == "remove" && (e.Proof != "seen" || e.WatchedNS < e.CommittedNS || e.CommittedNS < e.SentNS || e.Object != "pod of "+e.Step) {
			t.Errorf("event %+v", e)
		}
		after := time.Duration(e.SentNS - e.PlannedNS)
		if after < 0 {
			t.Errorf("%s %s began %v early", e.Op, e.Step, -after)
		}
		if e.Op == "remove" { // the end of short must wait for its proof
			late = max(late, after, time.Duration(e.WatchedNS-e.CommittedNS)-r.slow)
		}
	}
	if at := events[0].PlannedNS - start.UnixNano(); events[0].Step != "stays" || at != int64(60*ms) {
		is("%s planned at %v", events[0].Step, time.Duration(at))
	}
	return wrong, late
}

func TestStepErrors(t *testing.T) {
	broken := errors.New("out of order")
	r := &recorder{fail: map[string]error{"prepare a": broken, "begin b": broken, "prove c": broken, "end d": broken, "end e": broken}}
	events, _, err := run(t, t.Context(), r, fault.Timeline{Duration: 2 * time.Second, Steps: []fault.Step{
		step("a", 10*ms, 0), step("b", 20*ms, 0), step("c", 30*ms, 0), step("d", 40*ms, 0), step("e", 50*ms, 50*ms),
	}}, nil)
	// Whether it should have ended with the timeline or earlier.
	for _, name := range []string{"d", "e"} {
		if want := fmt.Sprintf("step %q was not reverted: out of order", name); err == nil || strings.Count(err.Error(), want) != 1 || strings.Count(err.Error(), "was not") != 2 {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	told := map[string]string{}
	for _, e := range events {
		told[e.Op+" "+e.Step] = e.Error
	}
	for what, want := range map[string]string{"remove a": "out of order", "remove b": "out of order", "remove c": "not proven: out of order", "remove d": "",
		"end remove b": "", "end remove c": "", "end remove d": "out of order", "remove e": "", "end remove e": "out of order"} {
		if got, ok := told[what]; !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", what, got, ok, want)
		}
	}
	if _, ok := told["end remove a"]; ok {
		t.Error("what never began was ended")
	}
}

// Cancelling the run does not interrupt an end in progress, because nothing would retry
// it.
func TestCancelDuringEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &recorder{then: map[string]func(){"end a": cancel}}
	_, _, err := run(t, ctx, r, fault.Timeline{Duration: 30 * time.Second, Steps: []fault.Step{step("a", 10*ms, 50*ms)}}, nil)
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "was not reverted") {
		t.Errorf("cancelled while a step ended: %v", err)
	}
}

func TestConditions(t *testing.T) {
	var asked time.Time // set by the step that waits for later
	holds := func(_ context.Context, expr string) (bool, error) {
		switch expr {
		case "later":
			if asked.IsZero() {
				asked = time.Now()
				return false, nil
			}
			return time.Since(asked) > 120*ms, nil
		case "never":
			return false, nil
		}
		return false, fmt.Errorf("unknown name %s", expr)
	}
	when := func(name, expr string) fault.Step {
		s := step(name, 10*ms, 0)
		s.When = expr
		return s
	}
	const length = 2 * time.Second
	r := &recorder{}
	events, start, err := run(t, t.Context(), r, fault.Timeline{Duration: length, Steps: []fault.Step{
		when("a", "later"), when("b", "never"), when("c", "nonsense"),
	}}, holds)
	must.OK(t, err)
	for _, e := range events {
		at := time.Duration(e.PlannedNS - start.UnixNano())
		switch e.Op + " " + e.Step {
		case "remove a":
			if e.Error != "" || at < 30*ms || at > length {
				t.Errorf("planned at %v: %s", at, e.Error)
			}
		case "remove b":
			if !strings.Contains(e.Error, "never held") {
				t.Errorf("error %q", e.Error)
			}
		case "remove c":
			if !strings.Contains(e.Error, "unknown name") {
				t.Errorf("error %q", e.Error)
			}
		case "end remove a":
		default:
			t.Errorf("unexpected %+v", e)
		}
	}
	if len(events) != 4 {
		t.Errorf("%d events", len(events))
	}
}

func TestCancelReverts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &recorder{then: map[string]func(){"prove b": cancel}} // both are in force
	events, _, err := run(t, ctx, r, fault.Timeline{Duration: time.Hour, Steps: []fault.Step{step("a", 10*ms, 0), step("b", 500*ms, time.Hour-time.Second), step("c", time.Minute, 0)}}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(r.did[len(r.did)-2:], ", "); got != "end b, end a" {
		t.Errorf("did %s", strings.Join(r.did, ", "))
	}
	if len(events) != 4 {
		t.Errorf("events %+v", events)
	}
}

package drive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshmark/meshmark/fault"
	"github.com/meshmark/meshmark/fault/drive"
	"github.com/meshmark/meshmark/internal/leakcheck"
	"github.com/meshmark/meshmark/record"
)

// recorder is hands that write down what they are told.
type recorder struct {
	mu   sync.Mutex
	did  []string
	fail map[string]error // by "begin NAME", "prove NAME", "ready NAME", "end NAME"
	slow time.Duration    // of proofs
}

func (r *recorder) note(what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, what)
	return r.fail[what]
}

func (r *recorder) Ready(_ context.Context, o fault.Occurrence) (drive.Hand, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fail["ready "+o.Name]; err != nil {
		return nil, err
	}
	return &hand{r, o.Name}, nil
}

type hand struct {
	r    *recorder
	name string
}

func (h *hand) Target() string              { return "pod of " + h.name }
func (h *hand) Begin(context.Context) error { return h.r.note("begin " + h.name) }
func (h *hand) End(context.Context) error   { return h.r.note("end " + h.name) }
func (h *hand) Prove(ctx context.Context) (string, error) {
	select {
	case <-time.After(h.r.slow):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return "seen", h.r.note("prove " + h.name)
}

func step(name string, at, lasting time.Duration) fault.Step {
	return fault.Step{Name: name, At: at, For: lasting, Action: fault.Action{Remove: &fault.Replicas{Service: name, Replicas: 1}}}
}

const ms = time.Millisecond

func run(t *testing.T, ctx context.Context, r *recorder, line fault.Timeline, sense drive.Sense) ([]record.Event, time.Time, error) {
	t.Helper()
	leakcheck.Goroutines(t)
	var events []record.Event
	start := time.Now().Add(20 * ms)
	err := drive.Run(ctx, start, &line, r, sense, func(e record.Event) { events = append(events, e) })
	return events, start, err
}

func TestStepsHappenOnTimeAndAreUndone(t *testing.T) {
	r := &recorder{slow: 60 * ms}
	events, start, err := run(t, t.Context(), r, fault.Timeline{Duration: 200 * ms, Steps: []fault.Step{
		step("stays", 20*ms, 0), step("short", 40*ms, 30*ms), step("last", 90*ms, 0),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "begin stays, begin short, prove stays, prove short, end short, begin last, prove last, end last, end stays"
	got := strings.Join(r.did, ", ")
	// short ends after its proof, which takes longer than it lasts; when its
	// end comes beside last's begin is open.
	if alternative := strings.Replace(want, "end short, begin last", "begin last, end short", 1); got != want && got != alternative &&
		got != strings.Replace(want, "prove short, end short, begin last", "begin last, prove short, end short", 1) {
		t.Errorf("did %s", got)
	}
	if len(events) != 6 {
		t.Fatalf("%d events", len(events))
	}
	for i, e := range events {
		if e.Change != i || e.Kind != drive.EventKind || e.Error != "" {
			t.Errorf("event %d: %+v", i, e)
		}
		if e.Op == fault.KindRemove && (e.Proof != "seen" || e.WatchedNS < e.CommittedNS || e.CommittedNS < e.SentNS || e.Object != "pod of "+e.Step) {
			t.Errorf("event %+v", e)
		}
		if late := e.SentNS - e.PlannedNS; late < 0 {
			t.Errorf("%s %s began %v early", e.Op, e.Step, time.Duration(-late))
		}
	}
	if at := events[0].PlannedNS - start.UnixNano(); events[0].Step != "stays" || at != int64(20*ms) {
		t.Errorf("%s planned at %v", events[0].Step, time.Duration(at))
	}
}

func TestFailuresAreTold(t *testing.T) {
	broken := errors.New("out of order")
	r := &recorder{fail: map[string]error{"ready a": broken, "begin b": broken, "prove c": broken, "end d": broken}}
	events, _, err := run(t, t.Context(), r, fault.Timeline{Duration: 60 * ms, Steps: []fault.Step{
		step("a", 10*ms, 0), step("b", 20*ms, 0), step("c", 30*ms, 0), step("d", 40*ms, 0),
	}}, nil)
	if err == nil || !strings.Contains(err.Error(), `step "d" is not undone: out of order`) {
		t.Errorf("error %v", err)
	}
	told := map[string]string{}
	for _, e := range events {
		told[e.Op+" "+e.Step] = e.Error
	}
	for what, want := range map[string]string{"remove a": "out of order", "remove b": "out of order", "remove c": "not proven: out of order", "remove d": "",
		"end remove b": "", "end remove c": "", "end remove d": "out of order"} {
		if got, ok := told[what]; !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", what, got, ok, want)
		}
	}
	if _, ok := told["end remove a"]; ok {
		t.Error("what never began was ended")
	}
}

func TestConditions(t *testing.T) {
	begin := time.Now()
	holds := func(_ context.Context, expr string) (bool, error) {
		switch expr {
		case "later":
			return time.Since(begin) > 120*ms, nil
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
	r := &recorder{}
	events, start, err := run(t, t.Context(), r, fault.Timeline{Duration: 250 * ms, Steps: []fault.Step{
		when("a", "later"), when("b", "never"), when("c", "nonsense"),
	}}, holds)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		at := time.Duration(e.PlannedNS - start.UnixNano())
		switch e.Op + " " + e.Step {
		case "remove a":
			if e.Error != "" || at < 80*ms || at > 250*ms {
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

func TestCancelledRunIsUndone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 80*ms)
	defer cancel()
	r := &recorder{}
	events, _, err := run(t, ctx, r, fault.Timeline{Duration: time.Hour, Steps: []fault.Step{step("a", 10*ms, 0), step("b", 20*ms, time.Hour-ms*100), step("c", time.Minute, 0)}}, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(r.did[len(r.did)-2:], ", "); got != "end b, end a" {
		t.Errorf("did %s", strings.Join(r.did, ", "))
	}
	if len(events) != 4 {
		t.Errorf("events %+v", events)
	}
}

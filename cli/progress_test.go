package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// If stderr is not a terminal, no more than 20 s pass without a line, whether there is much to
// say or nothing new, until there is nothing left to wait for.
func TestProgressElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := newProgress(&out)
		quiet := time.Duration(0)
		longest := quiet
		wait := func(n int, each time.Duration, text string) {
			for range n {
				before := len(out.String())
				if text != "" {
					p.Say("%s", text)
				}
				time.Sleep(each)
				synctest.Wait()
				quiet += each
				if len(out.String()) > before {
					quiet = 0
				}
				longest = max(longest, quiet)
			}
		}
		wait(1, 14*time.Second, "short")
		if len(out.String()) > 0 {
			t.Errorf("what is over soon is said: %q", out.String())
		}
		wait(300, 100*time.Millisecond, "compiling\nmuch")
		wait(90, time.Second, "") // one long step
		if lines := strings.Count(out.String(), "\n"); lines < 6 || lines > 12 || longest > 20*time.Second {
			t.Errorf("%d lines in 134 s, silence of %v:\n%s", lines, longest, out.String())
		}
		if !strings.Contains(out.String(), "   30 s  compiling much\n") {
			t.Errorf("no time, or no text:\n%s", out.String())
		}
		p.Note("done")
		said := len(out.String())
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(out.String()) != said || !strings.HasSuffix(out.String(), "done\n") {
			t.Errorf("it goes on when it is over:\n%s", out.String())
		}
		p.Say("again")
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if !strings.HasSuffix(out.String(), "again\n") {
			t.Errorf("nothing is said the second time:\n%s", out.String())
		}
		p.Clear()
		time.Sleep(sayEvery)
	})
}

// A line about a step names the trial in progress, if there is one.
func TestStepsNameTheirTrial(t *testing.T) {
	var out bytes.Buffer
	p := &eventLine{progress: newProgress(&out)}
	p.width = 200 // as a terminal
	plan := &study.Plan{Study: &study.Study{}}
	plan.Study.Blocks.Max = 3
	p.show(plan, runner.Event{Stage: "trial", Block: 1, Trial: 2, Trials: 7, Cell: "both"})
	p.show(plan, runner.Event{Stage: "step", Text: "idle for 2s"})
	p.show(plan, runner.Event{Stage: "trial", Block: 1, Trial: 2, Trials: 7, Cell: "both", Record: &record.Trial{Validity: record.Validity{Valid: true}}})
	p.show(plan, runner.Event{Stage: "step", Text: "reverting istiod"})
	if strings.Contains(out.String(), "trial 2: reverting") {
		t.Errorf("%q names a trial that has ended", out.String())
	}
	for _, want := range []string{"block 2 of at most 3, trial 2 of 7: both", "block 2, trial 2: idle for 2s", "reverting istiod"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
}

// Without a terminal only the first invalid trial is shown.
func TestFirstInvalidTrialIsShown(t *testing.T) {
	var out bytes.Buffer
	p := &eventLine{progress: newProgress(&out)}
	for _, id := range []string{"b000-t00", "b000-t01"} {
		p.show(nil, runner.Event{Stage: "trial", Cell: "both", Record: &record.Trial{ID: id}})
	}
	if want := "trial b000-t00 (both) is not valid: no reason recorded\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// What prevents pods from starting is shown in a line that stays, both in a run and outside one.
func TestWaitsAreShown(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.Say("deploying")
	(&eventLine{progress: p}).show(nil, runner.Event{Stage: runner.StageWait, Text: "waiting for one"})
	p.Clear()
	newProgress(&out).interject("waiting for another")
	if want := "waiting for one\nwaiting for another\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

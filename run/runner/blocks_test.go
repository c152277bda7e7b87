package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

func TestBlocks(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	s := studytest.Parse(t, studytest.ThreeCells)
	pods := &script{}
	r, events := newRun(t, out, false, s, pods)
	must.OK(t, r.blocks(t.Context()))
	trials := trialsOf(t, out)
	if len(trials) != 12 || pods.n != 12 || r.wholeBlocks() != 3 || r.stop != "all 3 blocks done" {
		t.Errorf("%d trials on disk, %d measured, %d blocks, stopped by %q", len(trials), pods.n, r.wholeBlocks(), r.stop)
	}
	i := 0
	for block := range 3 {
		for order, slot := range r.plan.Block(block) {
			got := trials[i]
			if got.ID != study.TrialID(block, order) || got.Block != block || got.Order != order || got.Repeat != slot.Repeat ||
				got.Cell.Key() != r.plan.Cells[slot.Cell].Key() {
				t.Errorf("trial %d is %s, where block %d has %v", i, identities(trials[i : i+1])[0], block, slot)
			}
			i++
		}
	}
	ended := slices.DeleteFunc(slices.Clone(*events), func(e Event) bool { return e.Record == nil })
	if len(ended) != 12 || ended[4].Trial != 1 || ended[4].Trials != 4 || ended[4].Block != 1 || ended[4].Cell == "" {
		t.Errorf("%d trials were reported; the fifth as %+v", len(ended), ended[4])
	}
}

// A writer that is killed at any moment loses no completed trial, and the
// resumed run makes the same trials, cells and arrivals as an uninterrupted
// one.
func TestKilledAnywhereThenResumed(t *testing.T) {
	s := studytest.Parse(t, studytest.ThreeCells)
	seeds := map[string]uint64{} // by the cell and when it was measured
	whole := filepath.Join(t.TempDir(), "whole")
	var order []uint64
	r, _ := newRun(t, whole, false, s, &script{trial: func(_ int, _ record.Cell, seed uint64) error { order = append(order, seed); return nil }})
	must.OK(t, r.blocks(t.Context()))
	want := trialsOf(t, whole)
	for i, trial := range want {
		seeds[trial.ID] = order[i]
	}
	killed := errors.New("killed")
	for n := range len(want) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "run")
			func() {
				first, _ := newRun(t, out, false, s, &script{trial: func(i int, _ record.Cell, _ uint64) error {
					if i == n {
						panic(killed)
					}
					return nil
				}})
				defer func() {
					if got := recover(); got != killed {
						t.Fatalf("the first attempt ended with %v", got)
					}
					first.dir.Close() // as the kernel does for a dead process
				}()
				_ = first.blocks(t.Context())
			}()
			debris(t, out, want[n].ID)
			var again []uint64
			second, events := newRun(t, out, true, s, &script{trial: func(_ int, _ record.Cell, seed uint64) error { again = append(again, seed); return nil }})
			if len(second.trials) != n || len(second.hist) != n {
				t.Fatalf("%d trials and %d histograms were kept of %d", len(second.trials), len(second.hist), n)
			}
			if len(*events) == 0 || !strings.Contains((*events)[0].Text, "incomplete last line") {
				t.Errorf("nothing was said of the half line: %+v", *events)
			}
			must.OK(t, second.blocks(t.Context()))
			got := trialsOf(t, out)
			if !slices.Equal(identities(got), identities(want)) {
				t.Errorf("trials\n%s\nwant\n%s", strings.Join(identities(got), "\n"), strings.Join(identities(want), "\n"))
			}
			for i, seed := range again {
				if id := want[n+i].ID; seed != seeds[id] {
					t.Errorf("trial %s has other arrivals than before", id)
				}
			}
			if len(again) != len(want)-n || second.wholeBlocks() != 3 {
				t.Errorf("%d trials were measured again, %d blocks are whole", len(again), second.wholeBlocks())
			}
		})
	}
}

// Ctrl-C during a trial ends the run at once and keeps every earlier trial.
func TestInterrupt(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	pods := &script{}
	pods.trial = func(n int, _ record.Cell, _ uint64) error {
		if n == 5 {
			cancel()
			return fmt.Errorf("watch the generator: %w", context.Canceled)
		}
		return nil
	}
	r, _ := newRun(t, out, false, studytest.Parse(t, studytest.ThreeCells), pods)
	err := r.blocks(ctx)
	if errs.Code(err) != errs.CodeInterrupted {
		t.Errorf("error %v, exit code %d", err, errs.Code(err))
	}
	if got := trialsOf(t, out); len(got) != 5 || pods.n != 6 || pods.mended != 0 || r.wholeBlocks() != 1 {
		t.Errorf("%d trials kept, %d begun, %d times reconnected, %d whole blocks", len(got), pods.n, pods.mended, r.wholeBlocks())
	}
}

func TestLostTrials(t *testing.T) {
	lost := errors.New("the pod is gone")
	losing := func(which ...int) func(int, record.Cell, uint64) error {
		return func(n int, _ record.Cell, _ uint64) error {
			if slices.Contains(which, n) {
				return lost
			}
			return nil
		}
	}
	t.Run("now and then", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "run")
		pods := &script{trial: losing(1, 2, 4, 5, 11)}
		r, _ := newRun(t, out, false, studytest.Parse(t, studytest.ThreeCells), pods)
		must.OK(t, r.blocks(t.Context()))
		trials := trialsOf(t, out)
		if len(trials) != 12 || pods.mended != 5 {
			t.Fatalf("%d trials, %d times reconnected", len(trials), pods.mended)
		}
		for i, trial := range trials {
			bad := slices.Contains([]int{1, 2, 4, 5, 11}, i)
			if trial.Validity.Valid == bad {
				t.Errorf("trial %s: valid %v", trial.ID, trial.Validity.Valid)
			}
			if bad && (len(trial.Validity.Checks) != 1 || trial.Validity.Checks[0].Name != "carried-through" ||
				trial.Validity.Checks[0].OK || !strings.Contains(trial.Validity.Checks[0].Detail, "the pod is gone") || trial.Ended.IsZero()) {
				t.Errorf("trial %s: %+v", trial.ID, trial.Validity)
			}
		}
	})
	t.Run("three in a row", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "run")
		pods := &script{trial: losing(2, 3, 4)}
		r, _ := newRun(t, out, false, studytest.Parse(t, studytest.ThreeCells), pods)
		err := r.blocks(t.Context())
		if !errors.Is(err, lost) || errs.Code(err) != errs.CodeFailure {
			t.Errorf("error %v, code %d, hint %q", err, errs.Code(err), errs.Hint(err))
		}
		if got := trialsOf(t, out); len(got) != 4 || pods.n != 5 {
			t.Errorf("%d trials kept of %d", len(got), pods.n)
		}
	})
	t.Run("and none would fare better", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "run")
		pods := &script{trial: func(n int, _ record.Cell, _ uint64) error {
			if n == 5 {
				return fmt.Errorf("prepare: %w", Fatal(errs.WithHint(lost, "look there")))
			}
			return nil
		}}
		r, _ := newRun(t, out, false, studytest.Parse(t, studytest.ThreeCells), pods)
		err := r.blocks(t.Context())
		if !errors.Is(err, lost) || errs.Code(err) != errs.CodeFailure || errs.Hint(err) != "look there" {
			t.Errorf("error %v, code %d, hint %q", err, errs.Code(err), errs.Hint(err))
		}
		if got := trialsOf(t, out); len(got) != 5 || pods.n != 6 || pods.mended != 0 {
			t.Errorf("%d trials kept of %d, %d times reconnected", len(got), pods.n, pods.mended)
		}
		if Fatal(nil) != nil {
			t.Error("what went well is marked")
		}
	})
	t.Run("with the run's namespace", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "run")
		away, never := fmt.Errorf("namespace meshtrial-1 %w", site.ErrTakenAway), errors.New("no room")
		pods := &script{trial: losing(1, 7), mend: func() error { return away }}
		r, events := newRun(t, out, false, studytest.Parse(t, studytest.ThreeCells), pods)
		deployed := 0
		r.redeploy = func(context.Context) error {
			if deployed++; deployed > 1 {
				return never
			}
			return nil
		}
		err := r.blocks(t.Context())
		if !errors.Is(err, never) {
			t.Errorf("error %v", err)
		}
		// The first loss costs only its own trial.
		if got := trialsOf(t, out); len(got) != 7 || got[1].Validity.Valid || !got[2].Validity.Valid || deployed != 2 {
			t.Errorf("%d trials, deployed anew %d times", len(got), deployed)
		}
		if !slices.ContainsFunc(*events, func(e Event) bool { return strings.Contains(e.Text, away.Error()+"; deploying anew") }) {
			t.Errorf("nobody was told: %+v", *events)
		}
	})
	t.Run("and the pods do not come back", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "run")
		never := errors.New("not ready")
		r, _ := newRun(t, out, false, studytest.Parse(t, studytest.ThreeCells), &script{trial: losing(2), mend: func() error { return never }})
		err := r.blocks(t.Context())
		if !errors.Is(err, never) {
			t.Errorf("error %v", err)
		}
		if got := trialsOf(t, out); len(got) != 2 {
			t.Errorf("%d trials kept", len(got))
		}
	})
}

// clock is a time that advances only explicitly.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sets   []string
		trial  time.Duration // of each
		enough int           // number of blocks that are enough; 0: never
		blocks int
		stop   string
	}{
		{"the most blocks", nil, time.Second, 0, 3, "all 3 blocks done"},
		{"enough at the least", nil, time.Second, 1, 2, "enough"},
		{"enough at the end", nil, time.Second, 3, 3, "all 3 blocks done"},
		{"time for two", []string{"blocks.limit=10s"}, time.Second, 0, 2, "time limit of 10s after 2 blocks"},
		{"time for exactly two", []string{"blocks.limit=8s"}, time.Second, 0, 2, "time limit of 8s after 2 blocks"},
		{"a block is always run", []string{"blocks.limit=1s"}, time.Second, 0, 1, "time limit of 1s after 1 block"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &clock{time.Unix(1000, 0)}
			pods := &script{noHists: true, trial: func(int, record.Cell, uint64) error { c.at = c.at.Add(tt.trial); return nil }}
			r, _ := newRun(t, filepath.Join(t.TempDir(), "run"), false, studytest.Parse(t, studytest.ThreeCells, tt.sets...), pods)
			r.now = c.now
			var asked []int
			r.o.Enough = func(_ *study.Plan, run record.Run) (bool, string) {
				blocks := len(run.Trials) / 4
				asked = append(asked, blocks)
				return tt.enough > 0 && blocks >= tt.enough, "enough"
			}
			must.OK(t, r.blocks(t.Context()))
			if r.wholeBlocks() != tt.blocks || r.stop != tt.stop || len(r.trials) != 4*tt.blocks {
				t.Errorf("%d blocks, %d trials, stopped by %q", r.wholeBlocks(), len(r.trials), r.stop)
			}
			if slices.ContainsFunc(asked, func(blocks int) bool { return blocks < 2 }) {
				t.Errorf("the stop rule was asked after %v blocks, the least is 2", asked)
			}
		})
	}
}

// A block that an earlier attempt started is finished regardless of the clock
// and the stop rule.
func TestBegunBlockIsFinished(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	s := studytest.Parse(t, studytest.ThreeCells, "blocks.limit=1s")
	func() {
		r, _ := newRun(t, out, false, s, &script{})
		for range 2 { // two blocks, and one trial of the third
			if _, _, err := r.block(t.Context(), r.wholeBlocks()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.pods = &script{trial: func(n int, _ record.Cell, _ uint64) error {
			if n == 1 {
				cancel()
			}
			return nil
		}}
		if _, _, err := r.block(ctx, 2); err == nil {
			t.Fatal("the block was not interrupted")
		}
		r.dir.Close()
	}()
	pods := &script{}
	r, _ := newRun(t, out, true, s, pods)
	r.o.Enough = func(*study.Plan, record.Run) (bool, string) { return true, "enough" }
	c := &clock{time.Unix(1000, 0)}
	r.now = c.now
	must.OK(t, r.blocks(t.Context()))
	if r.wholeBlocks() != 3 || pods.n != 3 {
		t.Errorf("%d whole blocks, %d trials in the second attempt", r.wholeBlocks(), pods.n)
	}
}

// The state of a run in progress equals what is later read from disk, including
// changes, because searches and stop rules depend on it.
func TestMemoryIsWhatIsKept(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	r, _ := newRun(t, out, false, studytest.Parse(t, climbing), nil)
	for n := range 2 {
		trial := Completed{Trial: record.Trial{Schema: record.Schema, ID: study.TrialID(0, n), Order: n, Cell: r.plan.Cells[n]}}
		for k := range 3 {
			trial.Events = append(trial.Events, record.Event{Schema: record.Schema, Change: k, Kind: "no-op", CommittedNS: int64(n*10 + k + 1)})
		}
		must.OK(t, r.keep(trial))
	}
	kept, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	if got := r.memory(); len(got.Events) != 6 || !reflect.DeepEqual(got.Events, kept.Events) {
		t.Errorf("in memory %+v\nwas kept %+v", got.Events, kept.Events)
	}
}

// finished returns the directory of a run that has ended, its study, and its state.
func finished(t *testing.T) (out string, s *study.Study, r *run) {
	out, s = filepath.Join(t.TempDir(), "run"), studytest.Parse(t, studytest.ThreeCells)
	r, _ = newRun(t, out, false, s, &script{})
	must.OK(t, r.blocks(t.Context()))
	r.dir.Close()
	return out, s, r
}

// A trial whose histograms were lost between two attempts is invalid.
func TestResumeWithoutHistogram(t *testing.T) {
	out, s, first := finished(t)
	lost := first.trials[1]
	if lost.Hist == "" || !lost.Validity.Valid {
		t.Fatalf("%+v", lost)
	}
	must.OK(t, os.Remove(filepath.Join(out, lost.Hist)))
	again, events := newRun(t, out, true, s, &script{})
	if len(again.trials) != len(first.trials) || len(again.hist) != len(first.hist)-1 || !again.done[lost.ID] {
		t.Errorf("%d trials, %d histograms", len(again.trials), len(again.hist))
	}
	for _, tr := range again.trials {
		if tr.Validity.Valid == (tr.ID == lost.ID) {
			t.Errorf("trial %s: %+v", tr.ID, tr.Validity)
		}
	}
	if !slices.ContainsFunc(*events, func(e Event) bool { return strings.Contains(e.Text, lost.ID) }) {
		t.Errorf("nothing was said of it: %+v", *events)
	}
}

// A run whose trials are all done deploys nothing when it is resumed.
func TestResumeOfFinishedRun(t *testing.T) {
	out, s, first := finished(t)
	got, err := Run(t.Context(), Options{Study: s, Kind: anyKind{}, Source: []byte("source\n"), Lab: noCluster{}, Mesh: none.Mesh{}, Out: out, Resume: true})
	if err != nil || got.Stop != first.stop || got.Blocks != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	s := studytest.Parse(t, studytest.ThreeCells)
	first, _ := newRun(t, out, false, s, &script{})
	open := func(change func(*Options)) error { return reopen(t, out, change) }
	if err := open(func(*Options) {}); errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "--resume") {
		t.Errorf("a directory with a run: %v, hint %q", err, errs.Hint(err))
	}
	if err := open(func(o *Options) { o.Resume = true }); err == nil {
		t.Error("a run that is under way was resumed")
	}
	first.dir.Close()
	if err := open(func(o *Options) { o.Resume = true }); err != nil {
		t.Errorf("resume: %v", err)
	}
	if err := open(func(o *Options) { o.Resume, o.Study = true, studytest.Parse(t, studytest.ThreeCells, "window=1s") }); errs.Code(err) != errs.CodeUsage {
		t.Errorf("resume of another study: %v", err)
	}
	elsewhere := filepath.Join(t.TempDir(), "other")
	unfit := errors.New("no such mesh")
	if err := open(func(o *Options) { o.Out, o.Kind = elsewhere, anyKind{unfit} }); !errors.Is(err, unfit) {
		t.Errorf("a plan that does not fit the lab: %v", err)
	}
	if _, err := store.Read(elsewhere); err == nil {
		t.Error("a refused run left a directory")
	}
}

// A run is resumed only under the limits that it was judged by.
func TestResumeUnderOtherRules(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	open := func(resume bool, lag float64) error {
		return reopen(t, out, func(o *Options) {
			o.Resume, o.Version, o.Rules = resume, "v7", record.Rules{Version: verdict.Version, Limits: map[string]float64{"lag": lag}}
		})
	}
	must.OK(t, errors.Join(open(false, 0.25), open(true, 0.25)))
	err := open(true, 0.5)
	if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "with lag 0.25 instead of 0.5") ||
		!strings.Contains(errs.Hint(err), "report "+out+" --rejudge") || !strings.Contains(errs.Hint(err), "meshtrial v7") {
		t.Errorf("%v, hint %q", err, errs.Hint(err))
	}
	if err := open(true, 0.25); err != nil {
		t.Errorf("after it was refused: %v", err)
	}
}

func TestTrialSeed(t *testing.T) {
	// Pinned: a run must be resumed with its original arrivals.
	if got := seedOf(7, "b000-t01"); got != 0x84c375c505b6ecfe {
		t.Errorf("trial b000-t01 of seed 7 has seed %#x", got)
	}
	if got := blockSeed(7, 0); got != 0x763a6fa8a1e9e8f {
		t.Errorf("block 0 of seed 7 has seed %#x", got)
	}
	seen := map[uint64]string{}
	for _, seed := range []uint64{0, 1, 7, 1 << 60} {
		for block := range 20 {
			if other, ok := seen[blockSeed(seed, block)]; ok {
				t.Errorf("block %d of seed %d has the arrivals of %s", block, seed, other)
			}
			seen[blockSeed(seed, block)] = fmt.Sprint("block ", block, " of seed ", seed)
			for order := range 20 {
				id := study.TrialID(block, order)
				key := fmt.Sprint(seed, id)
				if other, ok := seen[seedOf(seed, id)]; ok {
					t.Errorf("trials %s and %s have the same arrivals", key, other)
				}
				seen[seedOf(seed, id)] = key
			}
		}
	}
}

func TestMergeComponents(t *testing.T) {
	got := mergeComponents([]record.Component{
		{Name: "istiod", Version: "1.31.0", Source: "hub/pilot:1.31.0"},
		{Name: "envoy", Version: "1.40.0", Source: "as the running sidecar reports"},
		{Name: "istiod", Version: "1.31.0", Source: "a Go module", Digest: "sha256:1"},
		{Name: "envoy", Version: "1.39.0"},
		{Name: "envoy", Version: "1.40.0", Source: "a wheel", Digest: "sha256:2", Lacks: []string{"filters"}},
		{Name: "envoy", Version: "1.40.0", Source: "another", Digest: "sha256:3", Lacks: []string{"more"}},
		{Name: "cni", Version: "1"},
	})
	want := []record.Component{
		{Name: "cni", Version: "1"},
		{Name: "envoy", Version: "1.40.0", Source: "a wheel", Digest: "sha256:2", Lacks: []string{"filters"}},
		{Name: "envoy", Version: "1.39.0"},
		{Name: "istiod", Version: "1.31.0", Source: "a Go module", Digest: "sha256:1"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

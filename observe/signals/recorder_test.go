package signals

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

var began = time.UnixMilli(1_795_267_200_000)

func after(seconds float64) time.Time {
	return began.Add(time.Duration(seconds * float64(time.Second)))
}

func newRecorder(t *testing.T, dir string) *Recorder {
	t.Helper()
	r, err := OpenRecorder(dir)
	must.OK(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// opened opens a recording.
func opened(t *testing.T, dir string) *Series {
	t.Helper()
	s, err := OpenSeries(dir)
	must.OK(t, err)
	return s
}

// one evaluates an expression that must yield at most one series; ok is false
// if it yields none.
func one(t *testing.T, s Source, expr string, at time.Time) (v float64, ok bool) {
	t.Helper()
	got, err := s.Instant(context.Background(), expr, at)
	must.OK(t, err)
	switch len(got) {
	case 0:
		return 0, false
	case 1:
		return got[0].Value, true
	}
	t.Fatalf("%s gives %v", expr, got)
	return 0, false
}

func want(t *testing.T, s Source, expr string, at time.Time, v float64) {
	t.Helper()
	got, ok := one(t, s, expr, at)
	if !ok || math.Abs(got-v) > 1e-9*math.Max(1, math.Abs(v)) {
		t.Errorf("%s at %s is %v (%v), want %v", expr, at.UTC().Format(time.TimeOnly), got, ok, v)
	}
}

func wantNone(t *testing.T, s Source, expr string, at time.Time) {
	t.Helper()
	if got, ok := one(t, s, expr, at); ok {
		t.Errorf("%s at %s is %v, want nothing", expr, at.UTC().Format(time.TimeOnly), got)
	}
}

const page1 = `# TYPE pushes counter
pushes{type="cds"} 5
# TYPE proxies gauge
proxies 3
`

const page2 = `# TYPE pushes counter
pushes{type="cds"} 7
pushes{type="eds"} 4
`

func TestRecorder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "series")
	r := newRecorder(t, dir)
	istiod := map[string]string{"pod": "istiod-1"}
	must.OK(t, r.AppendPage(after(0), []byte(page1), istiod))
	must.OK(t, r.AppendPage(after(1), []byte(page2), istiod))
	check := func(s Source) {
		t.Helper()
		want(t, s, `pushes{type="cds",pod="istiod-1"}`, after(1), 7)
		// It appeared with its first counts, so it was zero before.
		want(t, s, `pushes{type="eds"}`, after(0.5), 0)
		want(t, s, `pushes{type="eds"}`, after(1), 4)
		want(t, s, `proxies`, after(0.5), 3)
		wantNone(t, s, `proxies`, after(1)) // it disappeared
		wantNone(t, s, `pushes`, after(-1))
	}
	check(r.Source())
	// The view of a reader in another process during writing.
	check(opened(t, dir))

	must.OK(t, r.Append(after(2), []Sample{{Name: "own", Labels: map[string]string{"a": "b"}, Value: 1}, {Name: "own", Value: 2}}))
	must.OK(t, r.Close())
	must.OK(t, r.Close())
	if err := r.Append(after(3), nil); err == nil || !strings.Contains(err.Error(), "already closed") {
		t.Errorf("append after the end: %v", err)
	}
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	for _, e := range entries {
		if e.Name() != dirJournal {
			t.Errorf("left beside the journal: %s", e.Name())
		}
	}
	closed := opened(t, dir)
	check(closed)
	want(t, closed, `own{a="b"}`, after(2), 1)
	if from, to := closed.Span(); !from.Equal(after(0)) || !to.Equal(after(2)) {
		t.Errorf("recorded from %s to %s", from, to)
	}

	// Resume the run.
	r = newRecorder(t, dir)
	must.OK(t, r.AppendPage(after(60), []byte(page1), istiod))
	want(t, r.Source(), `pushes{type="cds"}`, after(60), 5)
	want(t, r.Source(), `sum(pushes)`, after(1), 11)
	must.OK(t, r.Close())
	closed = opened(t, dir)
	check(closed)
	want(t, closed, `pushes{type="cds"}`, after(60), 5)
}

func TestRecorderRefuses(t *testing.T) {
	r := newRecorder(t, t.TempDir())
	for name, page := range map[string]string{
		"cut short":  "pushes{type=\"cds\"} 5\npushes{type=\"e",
		"HTML":       "<html><body>404</body></html>",
		"binary":     "pushes 5\n\x00\x00",
		"no value":   "pushes{type=\"cds\"}\n",
		"text value": "pushes five\n",
	} {
		if err := r.AppendPage(after(0), []byte("good 1\n"+page), nil); err == nil {
			t.Errorf("%s: recorded", name)
		}
		wantNone(t, r.Source(), "good", after(0))
	}
	must.OK(t, r.AppendPage(after(1), []byte("good 1\n"), nil))
	if err := r.AppendPage(after(1), []byte("good 2\n"), nil); err == nil {
		t.Error("two pages of one moment")
	}
	if _, err := OpenRecorder(r.dir); err == nil {
		t.Error("two recorders for one folder")
	}
}

func TestGone(t *testing.T) {
	r := newRecorder(t, t.TempDir())
	a, b := map[string]string{"pod": "a"}, map[string]string{"pod": "b"}
	must.OK(t, r.AppendPage(after(0), []byte("up_now 1\n"), a))
	must.OK(t, r.AppendPage(after(0), []byte("up_now 1\n"), b))
	must.OK(t, r.Gone(after(1), a))
	want(t, r.Source(), "count(up_now)", after(1), 1)
	must.OK(t, r.AppendPage(after(2), []byte("up_now 1\n"), a)) // it came back
	want(t, r.Source(), "count(up_now)", after(2), 2)
}

func TestOpenSeriesRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o644))
	for _, dir := range []string{"nowhere", file, t.TempDir()} {
		if _, err := OpenSeries(dir); err == nil {
			t.Errorf("%s: opened", dir)
		}
	}
}

// Samples with their own timestamp keep it, and count once.
func TestRecorderHonoursTimes(t *testing.T) {
	r := newRecorder(t, t.TempDir())
	page := func(seconds, value float64) []byte {
		return fmt.Appendf(nil, "# TYPE cpu_total counter\ncpu_total %g %d\ncores 2\n", value, after(seconds).UnixMilli())
	}
	must.OK(t, r.AppendPage(after(1), page(0.5, 3), nil))
	must.OK(t, r.AppendPage(after(2), page(0.5, 3), nil)) // unchanged timestamp
	must.OK(t, r.AppendPage(after(12), page(10.5, 8), nil))
	must.OK(t, r.AppendPage(after(13), page(99, 9), nil)) // a clock ahead of ours: use the time of reading
	want(t, r.Source(), "count_over_time(cpu_total[20s])", after(13), 3)
	want(t, r.Source(), "rate(cpu_total[10001ms])", after(10.5), 0.5)
	want(t, r.Source(), "cpu_total", after(13), 9)
	want(t, r.Source(), "cores", after(13), 2)
}

// A process that dies in the middle of a record leaves the previous ones
// intact. Other damage is rejected rather than partially read.
func TestJournalIsCut(t *testing.T) {
	dir := t.TempDir()
	r := newRecorder(t, dir)
	must.OK(t, r.AppendPage(after(0), []byte(page1), nil))
	must.OK(t, r.AppendPage(after(1), []byte(page2), nil))
	copied := filepath.Join(t.TempDir(), "copy")
	must.OK(t, os.CopyFS(copied, os.DirFS(dir)))
	must.OK(t, r.Close())
	segment := filepath.Join(copied, dirJournal, "00000000")
	whole, err := os.ReadFile(segment)
	must.OK(t, err)
	for cut := len(whole) - 1; cut > len(whole)-30; cut-- {
		must.OK(t, os.Truncate(segment, int64(cut)))
		want(t, opened(t, copied), `pushes{type="cds"}`, after(1), 5)
	}
	again := newRecorder(t, copied)
	must.OK(t, again.AppendPage(after(2), []byte(page2), nil))
	must.OK(t, again.Close())
	s := opened(t, copied)
	want(t, s, `pushes{type="cds"}`, after(1), 5)
	want(t, s, `pushes{type="cds"}`, after(2), 7)

	whole[20] ^= 0xff
	must.OK(t, os.WriteFile(segment, append(whole, make([]byte, 2*pageBytes-len(whole))...), 0o644))
	if _, err := OpenSeries(copied); err == nil {
		t.Error("a damaged journal is read")
	}
	if _, err := OpenRecorder(copied); err == nil {
		t.Error("a damaged journal is written to")
	}
}

// Recordings longer than a chunk contain every sample.
func TestRecorderManySamples(t *testing.T) {
	dir := t.TempDir()
	r := newRecorder(t, dir)
	recordStory(t, r, 0, 100)
	const n = 3*chunkSamples + 7
	for i := range n {
		must.OK(t, r.AppendPage(after(float64(1000+i)), fmt.Appendf(nil, "long %d\n", i*i), nil))
	}
	for _, q := range []struct{ from, samples int }{{n, n}, {chunkSamples, chunkSamples}, {1, 1}} {
		want(t, r.Source(), fmt.Sprintf("count_over_time(long[%ds])", q.from), after(1000+n-1), float64(q.samples))
	}
	must.OK(t, r.Close())
	want(t, opened(t, dir), fmt.Sprintf("sum_over_time(long[%ds])", n), after(1000+n-1), float64((n-1)*n*(2*n-1)/6))
}

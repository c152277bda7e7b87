package signals

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestPromQL compares every result over a recording with that of Prometheus's own
// database for the same query: testdata/promql.golden was written while a
// Recorder stored its series there.
func TestPromQL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "series")
	r := newRecorder(t, dir)
	recordStory(t, r, 0, storyPages/2)
	must.OK(t, r.Close())
	r = newRecorder(t, dir) // an interrupted run resumes
	recordStory(t, r, storyPages/2, storyPages)
	answers := map[string]string{"live": answerAll(t, r.Source())}
	died := filepath.Join(t.TempDir(), "died")
	must.OK(t, os.CopyFS(died, os.DirFS(dir)))
	must.OK(t, r.Close())
	for name, dir := range map[string]string{"closed": dir, "died": died} {
		answers[name] = answerAll(t, opened(t, dir))
	}
	golden.File(t, "testdata/promql.golden", []byte(answers["live"]))
	for name, got := range answers {
		compareLines(t, name, got, answers["live"])
	}
}

func compareLines(t *testing.T, name, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(g) != len(w) {
		t.Errorf("%s: %d lines, want %d", name, len(g), len(w))
	}
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s, line %d:\n got %s\nwant %s", name, i+1, g[i], w[i])
		}
	}
}

// storyPages is the number of pages in the story, one every five seconds.
const storyPages = 400

// recordStory records a range of pages in which series appear, end, restart and
// pause: half an hour of one istiod with recorded metrics, and of one with
// made-up metrics that is replaced halfway.
func recordStory(t *testing.T, r *Recorder, from, to int) {
	t.Helper()
	first, second := fixtures(t)
	recorded := [2][]byte{[]byte(first), []byte(second)}
	for i := from; i < to; i++ {
		at := after(float64(5 * i))
		if i%40 == 0 {
			must.OK(t, r.AppendPage(at, recorded[min(i/200, 1)], map[string]string{"pod": "istiod-recorded", "job": "istiod"}))
		}
		if i >= 100 && i < 180 { // longer than the lookback
			continue
		}
		pod := map[string]string{"pod": "istiod-a", "job": "istiod"}
		if i >= 250 {
			if i == 250 {
				must.OK(t, r.Gone(at, pod))
			}
			pod["pod"] = "istiod-b"
		}
		must.OK(t, r.AppendPage(at, storyPage(i, at), pod))
		if i%50 == 10 {
			must.OK(t, r.Append(at.Add(time.Millisecond), []Sample{{Name: "own", Labels: map[string]string{"trial": strconv.Itoa(i / 100)}, Value: float64(i) / 3}}))
		}
	}
}

// storyPage has a histogram, counters (one restarts, one appears late), and
// gauges that come and go, are infinite, or NaN.
func storyPage(i int, at time.Time) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# TYPE story_seconds histogram\n")
	for n, le := range []string{"0.1", "0.5", "1", "3", "5", "10", "+Inf"} {
		fmt.Fprintf(&b, "story_seconds_bucket{le=%q} %d\n", le, i*(n+1)+i*i/(8-n))
	}
	fmt.Fprintf(&b, "story_seconds_sum %g\nstory_seconds_count %d\n", float64(i)*1.7, i*7+i*i/2)
	fmt.Fprintf(&b, "# TYPE pushes counter\npushes{type=\"cds\"} %d\n", (i%150)*3)
	if i > 33 {
		fmt.Fprintf(&b, "pushes{type=\"eds\"} %g\n", float64(i)*1.1)
	}
	fmt.Fprintf(&b, "# TYPE proxies gauge\n")
	if i%20 < 13 {
		fmt.Fprintf(&b, "proxies{version=\"1.31\"} %d\n", 100-i%7)
	}
	fmt.Fprintf(&b, "proxies{version=\"1.30\"} %s\n", []string{"NaN", "+Inf", "-Inf", "-0", "1e-300"}[i/3%5])
	fmt.Fprintf(&b, "# TYPE cpu_total counter\ncpu_total %g %d\n", float64(i/3), at.Add(-time.Duration(i%3)*5*time.Second).UnixMilli())
	return []byte(b.String())
}

// answerAll evaluates every query on a source, at moments and over spans.
func answerAll(t *testing.T, s Source) string {
	t.Helper()
	questions := []string{
		`pushes`, `proxies`, `own`, `cpu_total`, `up`, `proxies{version!="1.31"}`, `{pod=~"istiod-[ab]",type="cds"}`, `pushes{type=""}`, `pushes{nope!~".+"}`,
		`proxies > 50`, `proxies == proxies`, `-proxies`, `rate(pushes[1m])`, `increase(pushes[2m])`, `irate(pushes[30s])`, `delta(proxies{version="1.31"}[1m])`,
		`resets(pushes[30m])`, `changes(proxies[5m])`, `deriv(pushes[1m])`, `count_over_time(cpu_total[1m])`, `max_over_time(proxies[1m])`, `last_over_time(proxies[4m])`,
		`quantile_over_time(0.9, pushes[2m])`, `stddev_over_time(pushes[1m])`, `present_over_time(own[10m])`, `absent(proxies{version="1.31"})`, `absent_over_time(own[1m])`,
		`sum by (pod) (rate(pushes[1m]))`, `sum without (le) (story_seconds_bucket)`, `count({job="istiod"})`, `topk(2, pushes)`, `quantile(0.5, pushes)`,
		`histogram_quantile(0.5, rate(story_seconds_bucket[1m]))`, `histogram_quantile(0.99, sum by (le) (rate(story_seconds_bucket[5m])))`,
		`histogram_quantile(0.9, story_seconds_bucket)`, `rate(story_seconds_sum[1m]) / rate(story_seconds_count[1m])`,
		`pushes offset 1m`, `pushes offset -10s`, `pushes @ 1795267300`, `max_over_time(rate(pushes[30s])[2m:15s])`, `pushes{type="cds"} / ignoring (type) pushes{type="eds"}`,
		`label_replace(pushes, "short", "$1", "pod", "istiod-(.*)")`, `timestamp(cpu_total)`, `scalar(cpu_total)`, `vector(1)`, `pushes or proxies`, `pushes unless pushes{type="eds"}`,
		`count by (__name__) ({pod="istiod-recorded"})`,
	}
	for _, signal := range Table(Options{}) {
		if slices.Contains([]record.Quantile{0, 0.5, 0.9, 0.99, 0.999}, signal.Quantile) { // the database was queried for these
			questions = append(questions, signal.Expr)
		}
	}
	moments := []float64{-1, 0, 0.5, 3, 170, 175, 499, 640, 796, 797, 905, 1000, 1249.5, 1251, 1750, 1996, 2300}
	var b strings.Builder
	ctx := context.Background()
	for _, q := range questions {
		fmt.Fprintf(&b, "%s\n", strings.Join(strings.Fields(q), " "))
		for _, m := range moments {
			got, err := s.Instant(ctx, q, after(m))
			must.OK(t, err)
			var lines []string
			for _, sample := range got {
				lines = append(lines, fmt.Sprintf("  at %g %s %s", m, observe.Metric{Name: sample.Name, Labels: sample.Labels}.Key(), twelveDigits(sample.Value)))
			}
			slices.Sort(lines)
			for _, line := range lines {
				fmt.Fprintln(&b, line)
			}
		}
		tracks, err := s.Range(ctx, q, after(400), after(1400), 97*time.Second)
		must.OK(t, err)
		var lines []string
		for _, track := range tracks {
			line := "  over " + observe.Metric{Labels: track.Labels}.Key()
			for _, p := range track.Points {
				line += fmt.Sprintf(" %d:%s", p.MS-began.UnixMilli(), twelveDigits(p.Value))
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		for _, line := range lines {
			fmt.Fprintln(&b, line)
		}
	}
	for _, span := range [][2]float64{{-10, -1}, {50, 55}, {505, 890}, {1260, 1995}} {
		names := []string{"pushes", "proxies", "pilot_xds_pushes", "nope"}
		has, err := s.Has(ctx, names, after(span[0]), after(span[1]))
		must.OK(t, err)
		fmt.Fprintln(&b, "has", span, has)
	}
	return b.String()
}

// twelveDigits formats a value without its last few bits, which depend on the
// order of a sum.
func twelveDigits(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }

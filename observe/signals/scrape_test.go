package signals

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// served is a target that serves text or fails.
type served struct {
	labels map[string]string
	page   string
	err    error
	reads  int
}

func (s *served) target() Target {
	return Target{Labels: s.labels, Fetch: func(context.Context) (io.ReadCloser, error) {
		s.reads++
		return io.NopCloser(strings.NewReader(s.page)), s.err
	}}
}

func TestScraper(t *testing.T) {
	ctx := context.Background()
	a := &served{labels: map[string]string{"pod": "a"}, page: "# TYPE n counter\nn 1\n"}
	b := &served{labels: map[string]string{"pod": "b"}, page: "# TYPE n counter\nn 5\n"}
	all := []*served{a, b}
	r := newRecorder(t, t.TempDir())
	var discovery error
	s := &Scraper{Recorder: r, RediscoverEvery: time.Hour, Discover: func(context.Context) ([]Target, error) {
		var targets []Target
		for _, target := range all {
			targets = append(targets, target.target())
		}
		return targets, discovery
	}}
	scrape := func(problems int) time.Time {
		t.Helper()
		time.Sleep(2 * time.Millisecond) // two pages need two timestamps
		at, got, err := s.Scrape(ctx)
		must.OK(t, err)
		if len(got) != problems {
			t.Fatalf("problems: %v", got)
		}
		return at
	}
	at := scrape(0)
	want(t, r.Source(), "sum(n)", at, 6)
	want(t, r.Source(), "sum(up)", at, 2)

	b.err = errors.New("connection refused")
	at = scrape(1)
	want(t, r.Source(), "sum(n)", at, 1) // an unread target does not keep its old value
	want(t, r.Source(), `up{pod="b"}`, at, 0)

	all = all[:1] // discovered again at once, since b failed
	at = scrape(0)
	if s.Targets() != 1 {
		t.Errorf("%d targets", s.Targets())
	}
	want(t, r.Source(), "sum(n)", at, 1)

	a.page = "# TYPE n counter\nn 2\nn"
	at = scrape(1)
	wantNone(t, r.Source(), "n", at)

	discovery = errors.New("the API server is away")
	a.page = "# TYPE n counter\nn 3\n"
	at = scrape(1) // but the known targets still respond
	want(t, r.Source(), "n", at, 3)
}

// A scraper ends exactly the series that an earlier one read in the same job.
func TestScraperEndsOthers(t *testing.T) {
	r := newRecorder(t, t.TempDir())
	scrape := func(targets ...*served) time.Time {
		t.Helper()
		time.Sleep(2 * time.Millisecond)
		s := &Scraper{Recorder: r, Discover: func(context.Context) (all []Target, _ error) {
			for _, target := range targets {
				all = append(all, target.target())
			}
			return all, nil
		}}
		at, problems, err := s.Scrape(context.Background())
		must.OK(t, err)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return at
	}
	old := &served{labels: map[string]string{"job": "istiod", "pod": "old"}, page: "n 1\n"}
	fresh := &served{labels: map[string]string{"job": "istiod", "pod": "new"}, page: "n 10\n"}
	other := &served{labels: map[string]string{"job": "else"}, page: "n 100\n"}
	scrape(other)
	want(t, r.Source(), "sum(n)", scrape(old), 101)
	want(t, r.Source(), "sum(n)", scrape(fresh), 110)
	want(t, r.Source(), "sum(n)", scrape(fresh), 110)
}

func TestScraperBounds(t *testing.T) {
	endless := Target{Fetch: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(zeroes{}), nil }}
	if _, err := fetch(context.Background(), endless); !errors.Is(err, ErrPageTooLarge) {
		t.Errorf("a page without end: %v", err)
	}
	broken := Target{Fetch: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("n 1\n"), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
	}}
	if _, err := fetch(context.Background(), broken); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a page cut short: %v", err)
	}
}

type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) { return len(b), nil }

func TestKeepLines(t *testing.T) {
	keep := func(line []byte) bool { return line[0] == 'k' }
	for page, want := range map[string]string{
		"":                          "",
		"# c\nk 1\nx 2\nk 3\n":      "# c\nk 1\nk 3\n",
		"x 1\nx 2":                  "x 2", // incomplete: detected as such
		"k 1":                       "k 1",
		"\n\nx 1\n":                 "",
		strings.Repeat("x 1\n", 50): "",
	} {
		if got := string(keepLines([]byte(page), keep)); got != want {
			t.Errorf("%q becomes %q, want %q", page, got, want)
		}
	}
}

// No goroutines or files are leaked.
func TestNothingIsLeft(t *testing.T) {
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	leakcheck.Goroutines(t)
	for range 3 {
		dir := t.TempDir()
		r := newRecorder(t, dir)
		a := &served{labels: map[string]string{"pod": "a"}, page: "n 1\n"}
		s := &Scraper{Recorder: r, Discover: func(context.Context) ([]Target, error) { return []Target{a.target()}, nil }}
		ctx, cancel := context.WithCancel(context.Background())
		must.OK(t, s.Run(ctx, time.Millisecond, func(time.Time, []Problem) error {
			if a.reads > 5 {
				cancel()
			}
			return nil
		}))
		cancel()
		want(t, opened(t, dir), "count(n)", time.Now(), 1)
		must.OK(t, r.Close())
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

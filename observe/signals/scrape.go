package signals

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Target is something that serves a metrics page.
type Target struct {
	// Labels identify the target and are added to its series.
	Labels map[string]string
	// Fetch opens the page. The context also covers reading it.
	Fetch func(ctx context.Context) (io.ReadCloser, error)
	// Keep, if set, selects the lines of the page to record.
	Keep func(line []byte) bool
	// Every is the minimum interval between reads; 0 means every scrape.
	Every time.Duration
}

// Problem is a target that was not read. Without labels, the targets could not be listed.
type Problem struct {
	Labels map[string]string
	Err    error
}

func (p Problem) String() string {
	if p.Labels == nil {
		return p.Err.Error()
	}
	return fmt.Sprintf("%s: %v", MetricUp+key(p.Labels), p.Err)
}

// MetricUp is 1 for a target that was read and 0 for one that was not, as in
// Prometheus.
const MetricUp = "up"

// Scraper reads targets repeatedly into a Recorder.
type Scraper struct {
	Recorder *Recorder
	// Discover lists the targets. It is called at the start, every
	// RediscoverEvery, and after a failed read of a target.
	Discover        func(ctx context.Context) ([]Target, error)
	RediscoverEvery time.Duration // default 10 s

	targets    []Target
	discovered time.Time
	last       time.Time // of the previous scrape
	read       map[string]time.Time
}

// Scrape reads every target once, concurrently, and records their pages under
// one timestamp, which it returns. A target that does not respond is recorded
// as down and returned among the problems; err is set if the recording cannot
// continue.
func (s *Scraper) Scrape(ctx context.Context) (at time.Time, problems []Problem, err error) {
	if s.read == nil {
		s.read = map[string]time.Time{}
	}
	if time.Since(s.discovered) >= cmp.Or(s.RediscoverEvery, 10*time.Second) {
		if err := s.discover(ctx); err != nil {
			problems = append(problems, Problem{Err: err})
		}
	}
	at = time.Now()
	if at.UnixMilli() <= s.last.UnixMilli() { // recorded times have millisecond resolution
		at = s.last.Add(time.Millisecond)
	}
	s.last = at
	type page struct {
		text []byte
		err  error
	}
	var due []Target
	for _, t := range s.targets {
		if last, ok := s.read[key(t.Labels)]; !ok || t.Every <= 0 || at.Sub(last) >= t.Every-t.Every/20 {
			due = append(due, t)
		}
	}
	pages := make([]page, len(due))
	var all sync.WaitGroup
	for i, t := range due {
		all.Go(func() { pages[i].text, pages[i].err = fetch(ctx, t) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return at, problems, context.Cause(ctx)
	}
	for i, t := range due {
		s.read[key(t.Labels)] = at
		up := 1.0
		if pages[i].err == nil {
			pages[i].err = s.Recorder.AppendPage(at, pages[i].text, t.Labels)
		}
		if pages[i].err != nil {
			up = 0
			problems = append(problems, Problem{t.Labels, pages[i].err})
			s.discovered = time.Time{}
			if err := s.Recorder.Gone(at, t.Labels); err != nil {
				return at, problems, err
			}
		}
		if err := s.Recorder.Append(at, []Sample{{Name: MetricUp, Labels: t.Labels, Value: up}}); err != nil {
			return at, problems, err
		}
	}
	return at, problems, nil
}

// discover lists the targets again and ends the series of those that
// disappeared.
func (s *Scraper) discover(ctx context.Context) error {
	found, err := s.Discover(ctx)
	if err != nil {
		return err // the known targets may still respond
	}
	s.targets, s.discovered = found, time.Now()
	return s.Recorder.endOthers(s.discovered, found)
}

// Targets returns the number of known targets.
func (s *Scraper) Targets() int { return len(s.targets) }

// fetchTimeout is the timeout for reading one page.
const fetchTimeout = 10 * time.Second

func fetch(ctx context.Context, t Target) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	body, err := t.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	page, err := readPage(body, MaxPage)
	if err != nil || t.Keep == nil {
		return page, err
	}
	return keepLines(page, t.Keep), nil
}

// keepLines returns the selected lines of a page, and its comments. It also
// keeps an incomplete last line, so that it is detected as such.
func keepLines(page []byte, keep func([]byte) bool) []byte {
	out := page[:0:0]
	for line := range bytes.Lines(page) {
		if line[0] == '#' || line[len(line)-1] != '\n' || keep(line) {
			out = append(out, line...)
		}
	}
	return out
}

// Run scrapes at every interval until ctx ends, and calls each after every
// scrape. It returns nil when ctx ends. A scrape that takes longer than the
// interval skips the next one.
func (s *Scraper) Run(ctx context.Context, interval time.Duration, each func(at time.Time, problems []Problem) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		at, problems, err := s.Scrape(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(at, problems); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

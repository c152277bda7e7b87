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
	// Labels identify the target; its series carry them.
	Labels map[string]string
	// Fetch opens the page. The context bounds reading it too.
	Fetch func(ctx context.Context) (io.ReadCloser, error)
	// Keep, if set, chooses the lines of the page that are recorded.
	Keep func(line []byte) bool
	// Every is how often it is read at most; 0: at each scrape.
	Every time.Duration
}

// MetricUp is 1 for a target that was read, 0 for one that was not, as
// Prometheus has it.
const MetricUp = "up"

// Scraper reads targets again and again into a Recorder.
type Scraper struct {
	Recorder *Recorder
	// Discover lists the targets. It is asked at the start, every
	// RediscoverEvery, and after a target could not be read.
	Discover        func(ctx context.Context) ([]Target, error)
	RediscoverEvery time.Duration // default 10 s

	targets    []Target
	discovered time.Time
	last       time.Time // of the scrape before
	read       map[string]time.Time
}

// Scrape reads every target once, all at the same time, and records what they
// serve under one timestamp, which it returns. A target that does not answer
// is recorded as down, and returned among the problems; err is for what ends
// the recording.
func (s *Scraper) Scrape(ctx context.Context) (at time.Time, problems []string, err error) {
	if s.read == nil {
		s.read = map[string]time.Time{}
	}
	every := s.RediscoverEvery
	every = cmp.Or(every, 10*time.Second)
	if s.discovered.IsZero() || time.Since(s.discovered) >= every {
		if problem := s.discover(ctx); problem != "" {
			problems = append(problems, problem)
		}
	}
	at = time.Now()
	if at.UnixMilli() <= s.last.UnixMilli() { // recorded times have milliseconds
		at = s.last.Add(time.Millisecond)
	}
	s.last = at
	type page struct {
		text []byte
		err  error
	}
	due := make([]bool, len(s.targets))
	pages := make([]page, len(s.targets))
	var all sync.WaitGroup
	for i, t := range s.targets {
		if last, ok := s.read[key(t.Labels)]; ok && t.Every > 0 && at.Sub(last) < t.Every-t.Every/20 {
			continue
		}
		due[i] = true
		all.Go(func() { pages[i].text, pages[i].err = fetch(ctx, t) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return at, problems, context.Cause(ctx)
	}
	for i, t := range s.targets {
		if !due[i] {
			continue
		}
		s.read[key(t.Labels)] = at
		up := 1.0
		if pages[i].err == nil {
			pages[i].err = s.Recorder.AppendPage(at, pages[i].text, t.Labels)
		}
		if pages[i].err != nil {
			up = 0
			problems = append(problems, fmt.Sprintf("%s: %v", MetricUp+key(t.Labels), pages[i].err))
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

// discover lists the targets again and ends the series of those that are gone.
func (s *Scraper) discover(ctx context.Context) (problem string) {
	found, err := s.Discover(ctx)
	if err != nil {
		return err.Error() // the targets known so far may still answer
	}
	s.targets, s.discovered = found, time.Now()
	if err := s.Recorder.endOthers(s.discovered, found); err != nil {
		return err.Error()
	}
	return ""
}

// Targets returns how many targets are known.
func (s *Scraper) Targets() int { return len(s.targets) }

// fetchTimeout bounds reading one page.
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

// keepLines returns the lines of a page that are chosen; comments stay. An
// unfinished last line stays too, so that it is seen as such.
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
// scrape. It returns nil when ctx ends. Scrapes that take longer than the
// interval leave the next out.
func (s *Scraper) Run(ctx context.Context, interval time.Duration, each func(at time.Time, problems []string) error) error {
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

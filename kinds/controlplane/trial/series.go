package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
)

// scrapeEvery is the interval at which istiod's metrics are recorded in a window: short enough
// for rates over a few seconds, at a fraction of a percent of a CPU.
const scrapeEvery = 5 * time.Second

// seriesWatch records istiod's metrics while a trial makes its changes. Without a recorder it does
// nothing.
type seriesWatch struct {
	scraper *signals.Scraper
	end     func()
	err     error
	times   int    // scheduled recordings
	lacking int    // of them, those with something unreadable
	example string // of what was unreadable
}

// watchSeries records now, and then every few seconds until stopped.
func (t *controlTrial) watchSeries(ctx context.Context) *seriesWatch {
	w := &seriesWatch{end: func() {}}
	if t.c.series != nil {
		w.scraper = &signals.Scraper{Recorder: t.c.series, Discover: t.c.seriesTargets}
		w.scrape(ctx)
		w.end = every(ctx, scrapeEvery, w.scrape)
	}
	return w
}

// scrape records what it can read; the rest is recorded as down.
func (w *seriesWatch) scrape(ctx context.Context) {
	_, problems, err := w.scraper.Scrape(ctx)
	if ctx.Err() != nil {
		return
	}
	w.times++
	if err != nil {
		w.err = err
	}
	if len(problems) > 0 {
		if w.lacking++; w.example == "" {
			w.example = problems[0].String()
		}
	}
}

// stop ends the recording and returns its errors.
func (w *seriesWatch) stop() error {
	w.end()
	if w.lacking > 0 {
		return errors.Join(w.err, fmt.Errorf("%d of %d reads failed, first %s", w.lacking, w.times, w.example))
	}
	return w.err
}

// seriesTargets returns istiod's replicas, with the labels that Prometheus gives them in a cluster.
func (c *controlPlane) seriesTargets(ctx context.Context) ([]signals.Target, error) {
	pods, err := c.mesh.Pods(ctx)
	if err != nil {
		return nil, err
	}
	var out []signals.Target
	for _, p := range pods {
		out = append(out, signals.Target{
			Labels: map[string]string{"job": "istiod", "app": "istiod", "namespace": p.Namespace, "pod": p.Name,
				"instance": fmt.Sprintf("%s:%d", p.IP, p.AdminPort)},
			Fetch: func(ctx context.Context) (io.ReadCloser, error) { return c.metricsPage(ctx, p) },
		})
	}
	return out, nil
}

func (c *controlPlane) metricsPage(ctx context.Context, p mesh.ControlPod) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Name+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.istiodHTTP(p).Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("metrics of %s: %s", p.Name, resp.Status)
	}
	return resp.Body, nil
}

// recordConvergence adds the trial's true convergence to the series.
func (t *controlTrial) recordConvergence(events []record.Event) error {
	if t.c.series == nil {
		return nil
	}
	c := signals.NewConvergence(map[string]string{"job": "meshtrial", "trial": t.job.ID})
	if err := t.c.series.Append(t.out.Window.Start, c.Samples()); err != nil {
		return err
	}
	for _, e := range events {
		for _, us := range e.Seen.AckedUS {
			if us != record.Never {
				c.Observe(float64(us) / 1e6)
			}
		}
		for range e.Missed {
			c.Miss()
		}
	}
	return t.c.series.Append(windowEnd(t.out.Window), c.Samples())
}

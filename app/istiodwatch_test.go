package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/testing/must"
)

// An istiod that answers differently each time is one note, and so are the kubelets.
func TestWatchCountsFailedReadings(t *testing.T) {
	recorder, remove, err := TemporaryRecorder()
	must.OK(t, err)
	defer func() { must.OK(t, remove()) }()
	n := 0
	discover := func(context.Context) ([]signals.Target, error) {
		n++
		fails := func(context.Context) (io.ReadCloser, error) { return nil, fmt.Errorf("answer %d", n) }
		all := []signals.Target{{Labels: map[string]string{"job": "istiod", "pod": "a"}, Fetch: fails}, {Labels: map[string]string{"job": "istiod", "pod": "b"}, Fetch: fails},
			{Labels: map[string]string{"job": "kubelet", "instance": "one"}, Fetch: fails}}
		if n%2 == 0 {
			return nil, errors.New("not now")
		}
		return all, nil
	}
	w := IstiodWatch{Interval: 10 * time.Millisecond, Duration: 300 * time.Millisecond, Say: func(string) {}}
	_, _, problems, err := w.scrape(t.Context(), &signals.Scraper{Recorder: recorder, Discover: discover})
	must.OK(t, err)
	if len(problems) != 3 || !problems[0].Is(istiodsNotListed) || !problems[1].Is(istiodNotScraped) || !problems[2].Is(kubeletNotRead) {
		t.Fatalf("%v", problems)
	}
	times, readings := problems[1].Args[0].(float64), problems[1].Args[1].(float64)
	if listed := problems[0].Args[0].(float64); times != readings || !(listed > 0) || listed >= readings {
		t.Errorf("%v", problems)
	}
}

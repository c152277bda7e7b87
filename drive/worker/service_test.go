package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp/jsonhttptest"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/testing/must"
)

func draws(config control.ServiceTime, n int) []float64 {
	s := newSampler(config)
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(s.draw()) / 1e3
	}
	return out
}

// The statistic is that of Kolmogorov and Smirnov: the largest distance between
// the sample's distribution and the theory's. Its 99.9% point for n draws is
// 1.95/sqrt(n); the seed is fixed, so the test is not flaky.
func TestDrawsFollowTheirDistribution(t *testing.T) {
	const n = 50_000
	for name, test := range map[string]struct {
		config control.ServiceTime
		cdf    func(us float64) float64
	}{
		"exponential": {
			control.ServiceTime{Distribution: control.Exponential, MeanUS: 800, Seed: 7},
			func(us float64) float64 { return 1 - math.Exp(-us/800) },
		},
		"lognormal": {
			control.ServiceTime{Distribution: control.Lognormal, MeanUS: 1500, Sigma: 0.8, Seed: 7},
			func(us float64) float64 {
				mu := math.Log(1500) - 0.8*0.8/2
				return 0.5 * math.Erfc(-(math.Log(us)-mu)/(0.8*math.Sqrt2))
			},
		},
	} {
		got := draws(test.config, n)
		slices.Sort(got)
		distance := 0.0
		for i, us := range got {
			theory := test.cdf(us)
			distance = max(distance, math.Abs(theory-float64(i)/n), math.Abs(float64(i+1)/n-theory))
		}
		if limit := 1.95 / math.Sqrt(n); distance > limit {
			t.Errorf("%s: distance %.5f, limit %.5f", name, distance, limit)
		}
		mean := 0.0
		for _, us := range got {
			mean += us / n
		}
		if math.Abs(mean/test.config.MeanUS-1) > 0.02 {
			t.Errorf("%s: mean %.1f us, asked for %v", name, mean, test.config.MeanUS)
		}
	}
}

func TestRecordedDrawsAreTheSamples(t *testing.T) {
	samples := []float64{10, 20, 30, 40}
	seen := map[float64]int{}
	for _, us := range draws(control.ServiceTime{Distribution: control.Recorded, SamplesUS: samples, Seed: 1}, 40_000) {
		seen[us]++
	}
	for _, us := range samples {
		// Binomial: standard deviation 87.
		if n := seen[us]; n < 9_600 || n > 10_400 {
			t.Errorf("%v us drawn %d times of 40,000", us, n)
		}
	}
	if len(seen) != len(samples) {
		t.Errorf("drew %v", seen)
	}
}

func TestDrawsRepeatBySeedAndStayBelowTheCut(t *testing.T) {
	config := control.ServiceTime{Distribution: control.Lognormal, MeanUS: 1000, Sigma: 2, Seed: 5, MaxUS: 3000}
	first, again := draws(config, 1000), draws(config, 1000)
	if !slices.Equal(first, again) {
		t.Error("one seed gave two sequences")
	}
	if slices.Max(first) != 3000 {
		t.Errorf("the longest draw is %v us", slices.Max(first))
	}
	config.Seed = 6
	if slices.Equal(first, draws(config, 1000)) {
		t.Error("two seeds gave one sequence")
	}
	if got := draws(control.ServiceTime{Distribution: control.Fixed, MeanUS: 12.5}, 2); got[0] != 12.5 || got[1] != 12.5 {
		t.Errorf("fixed: %v", got)
	}
	if got := draws(control.ServiceTime{}, 1); got[0] != 0 {
		t.Errorf("none: %v", got)
	}
}

func TestConfigVersions(t *testing.T) {
	w := start(t, nil)
	ctx := t.Context()
	config, err := w.ctl.Config(ctx)
	if err != nil || config.Version != 1 || config.ServiceTime.Distribution != control.None {
		t.Fatalf("%+v, %v", config, err)
	}
	config.ResponseBytes = 7
	set, err := w.ctl.SetConfig(ctx, config)
	if err != nil || set.Version != 2 || set.ResponseBytes != 7 {
		t.Fatalf("%+v, %v", set, err)
	}
	if _, err := w.ctl.SetConfig(ctx, config); !errors.Is(err, control.ErrConflict) {
		t.Errorf("an old version: %v", err)
	}
	set.ResponseBytes = -5
	if _, err := w.ctl.SetConfig(ctx, set); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "response_bytes") {
		t.Errorf("a bad value: %v", err)
	}
	if now, _ := w.ctl.Config(ctx); now.Version != 2 || now.ResponseBytes != 7 {
		t.Errorf("a refused change had an effect: %+v", now)
	}
	if clock, err := w.ctl.Clock(ctx); err != nil || clock.Ahead.Abs() > clock.Bound+time.Millisecond {
		t.Errorf("the same clock: %+v, %v", clock, err)
	}
}

func TestPacerFollowsTheMedian(t *testing.T) {
	timer, err := wake.New()
	must.OK(t, err)
	defer timer.Close()
	p := &pacer{timer: timer}
	for range 300 {
		must.OK(t, p.until(context.Background(), time.Now().Add(300*time.Microsecond)))
	}
	if lead := time.Duration(p.lead.Load()); lead <= 0 || lead > maxLead {
		t.Errorf("lead is %v", lead)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.until(ctx, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A page in a user's browser must not change the workload.
func TestPagesOfOthersAreRefused(t *testing.T) {
	jsonhttptest.RefusesStrangers(t, "http://"+start(t, nil).addr["control"], "/v1/config")
}

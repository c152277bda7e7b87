package xds

import (
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

// The lag of an account always has a source: without kernel timestamps, or with
// too few of them, it is the heartbeat.
func TestLagSource(t *testing.T) {
	for _, test := range []struct {
		name                       string
		stamped, unstamped, sleeps int
		source                     string
		count                      int64
		p50                        float64
	}{
		{"all stamped", 100, 0, 5, LagKernel, 100, 7},
		{"a first read before the kernel was asked", 1000, 5, 5, LagKernel, 1000, 7},
		{"none stamped", 0, 100, 5, LagTimer, 5, 3000},
		{"half stamped", 100, 100, 5, LagTimer, 5, 3000},
		{"nothing read", 0, 0, 5, LagTimer, 5, 3000},
		{"nothing at all", 0, 0, 0, LagTimer, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &Fleet{}
			for range test.stamped {
				f.lag.add(7000)
			}
			f.unstamped.Add(int64(test.unstamped))
			for range test.sleeps {
				f.timerLag.add(3_000_000)
			}
			var a Account
			f.lags(&a)
			if a.LagSource != test.source || a.LagCount != test.count || a.Lag.At(0.5) < test.p50 || a.Lag.At(0.5) > test.p50*1.1 {
				t.Errorf("%+v", a)
			}
			if test.sleeps > 0 && a.TimerLag.At(0.5) < 3000 {
				t.Errorf("timer lag %+v", a.TimerLag)
			}
			if a.StampedReads != int64(test.stamped) || a.UnstampedReads != int64(test.unstamped) {
				t.Errorf("reads %+v", a)
			}
			var next Account
			f.lags(&next)
			if next.Lag != (record.Quantiles{}) || next.UnstampedReads != 0 {
				t.Errorf("the next account has the lags again: %+v", next)
			}
		})
	}
}

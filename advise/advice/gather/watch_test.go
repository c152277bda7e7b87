package gather

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The signals to watch while a setting changes exist: each query has a value for a
// healthy istiod, which has never exported an error. The query for errors is then zero,
// and above zero from the first error of any kind.
func TestWatch(t *testing.T) {
	tuned := &record.Tuning{Recommended: record.Cell{study.FactorDebounceAfter: "1s"},
		Present: record.Cell{study.FactorDebounceAfter: "100ms"}}
	advice.Careful(tuned)
	if len(tuned.Watch) < 5 {
		t.Fatalf("%+v", tuned.Watch)
	}
	const rejects, timeouts = `pilot_total_xds_rejects`, `pilot_xds_write_timeout`
	for name, c := range map[string]struct {
		errors map[string][2]float64 // from minute 20 on, and at the end
		want   bool
	}{
		"healthy":              {nil, false},
		"rejects":              {map[string][2]float64{rejects: {1, 4}}, true},
		"one reject":           {map[string][2]float64{rejects: {1, 1}}, true},
		"writes that time out": {map[string][2]float64{timeouts: {1, 4}}, true},
		"both":                 {map[string][2]float64{rejects: {2, 2}, timeouts: {1, 1}}, true},
	} {
		var moments []signals.Moment
		begin := time.Unix(1_700_000_000, 0)
		for minute := range 26 {
			m := signals.Moment{At: begin.Add(time.Duration(minute) * time.Minute)}
			add := func(name string, value float64, labels map[string]string) {
				m.Samples = append(m.Samples, signals.Sample{Name: name, Labels: labels, Value: value})
			}
			for _, metric := range []string{"pilot_proxy_convergence_time_bucket", "pilot_proxy_queue_time_bucket"} {
				add(metric, float64(10*minute), map[string]string{"le": "0.1", "pod": "istiod-1"})
				add(metric, float64(10*minute), map[string]string{"le": "+Inf", "pod": "istiod-1"})
			}
			add("container_cpu_usage_seconds_total", float64(minute),
				map[string]string{"namespace": "istio-system", "container": "discovery", "pod": "istiod-1"})
			add("pilot_xds_pushes", float64(100*minute), map[string]string{"type": "cds"})
			add("pilot_inbound_updates", float64(10*minute), map[string]string{"type": "config"})
			add("istio_requests_total", float64(minute),
				map[string]string{"reporter": "source", "response_flags": "UF"})
			for metric, of := range c.errors {
				if minute >= 20 {
					add(metric, of[min(minute/25, 1)], map[string]string{"type": "lds"})
				}
			}
			moments = append(moments, m)
		}
		held, err := signals.Held(name, moments)
		must.OK(t, err)
		for i, w := range tuned.Watch {
			got, err := held.Instant(t.Context(), w.Query, moments[25].At)
			if err != nil || len(got) != 1 {
				t.Errorf("%s: %s: %s is %v, %v", name, w.Signal, w.Query, got, err)
				continue
			}
			if i == 4 && (got[0].Value > 0) != c.want {
				t.Errorf("%s: %s is %g", name, w.Query, got[0].Value)
			}
		}
	}
}

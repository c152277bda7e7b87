package observe

import (
	"math"
	"testing"
)

func FuzzEnvoyJSON(f *testing.F) {
	f.Add([]byte(`{"stats":[{"name":"a","value":5},{"histograms":{}}]}`))
	f.Add([]byte(`{"version":"a/1.40.0/c/d/e","uptime_current_epoch":"1.5s","command_line_options":{"concurrency":2}}`))
	f.Add([]byte(`{"certificates":[{"ca_cert":[{"serial_number":"x","valid_from":"2026-11-21T08:00:00Z"}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if stats, err := ParseEnvoyStatsJSON(data); err == nil {
			checkFinite(t, stats)
		}
		_, _ = parseEnvoyServerInfo(data)
		_, _ = ParseEnvoyCertificates(data)
	})
}

func FuzzPrometheus(f *testing.F) {
	f.Add([]byte("# TYPE c counter\nc{a=\"b\"} 3\n"))
	f.Add([]byte("# TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_sum 0.5\nh_count 3\n"))
	f.Add([]byte("# TYPE s summary\ns{quantile=\"0.5\"} 4\ns_sum 9\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		metrics, err := ParsePrometheus(data)
		if err != nil {
			return
		}
		for _, m := range metrics {
			if m.Name == "" || m.Type == "" || m.Key() == "" {
				t.Errorf("%+v", m)
			}
		}
	})
}

func checkFinite(t *testing.T, stats map[string]float64) {
	for name, value := range stats {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			t.Errorf("%s is %v", name, value)
		}
	}
}

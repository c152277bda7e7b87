package observe

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"time"
)

// ZtunnelAdmin reads the statistics of a ztunnel; base "" is http://127.0.0.1:15020, as in
// its pod. They contain neither its start time nor, apart from the version of Istio, its
// configuration.
func ZtunnelAdmin(client *http.Client, base string) PageAdmin {
	sort := func(metrics []Metric, taken time.Time, wanted *regexp.Regexp) (ProxyStats, error) {
		stats := seriesOf(metrics, wanted)
		stats.Taken, stats.NoUptime = taken, true
		return stats, nil
	}
	return PageAdmin{adminPage{"ztunnel", client, cmp.Or(base, "http://127.0.0.1:15020")}, ztunnelVersion, sort, ""}
}

// ztunnelBuild is the series with the Istio version of a ztunnel.
const ztunnelBuild = "istio_build"

// ztunnelVersion returns the Istio version that the ztunnel reports.
func ztunnelVersion(metrics []Metric) (string, error) {
	for _, m := range metrics {
		if m.Name == ztunnelBuild {
			return m.Labels["tag"], nil
		}
	}
	return "", errors.New("ztunnel: the page of metrics has no " + ztunnelBuild)
}

package observe

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"time"
)

// ZtunnelAdmin reads the statistics of a ztunnel; base "" is http://127.0.0.1:15020, as in
// its pod. They say neither when it started nor, but for the version of Istio, how it is
// configured.
func ZtunnelAdmin(client *http.Client, base string) PageAdmin {
	sort := func(metrics []Metric, taken time.Time, wanted *regexp.Regexp) (ProxyStats, error) {
		stats := seriesOf(metrics, wanted)
		stats.Taken, stats.NoUptime = taken, true
		return stats, nil
	}
	return PageAdmin{adminPage{"ztunnel", client, cmp.Or(base, "http://127.0.0.1:15020")}, ztunnelVersion, sort, ""}
}

// ztunnelBuild is the series that names the Istio that a ztunnel was released with.
const ztunnelBuild = "istio_build"

// ztunnelVersion is that of the Istio that the ztunnel says it belongs to.
func ztunnelVersion(metrics []Metric) (string, error) {
	for _, m := range metrics {
		if m.Name == ztunnelBuild {
			return m.Labels["tag"], nil
		}
	}
	return "", errors.New("ztunnel: the page of metrics has no " + ztunnelBuild)
}

package observe

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// LinkerdAdmin reads the admin interface of a Linkerd proxy; base "" is
// http://127.0.0.1:4191, as in a pod. Unlike Envoy's, it exposes no certificates, and
// its only configuration is the proxy's environment, a JSON object of names and
// values.
func LinkerdAdmin(client *http.Client, base string) PageAdmin {
	return PageAdmin{adminPage{"linkerd admin", client, cmp.Or(base, "http://127.0.0.1:4191")}, LinkerdVersion, LinkerdStats, "/env.json"}
}

// Names on the proxy's metrics page.
const (
	linkerdStart = "process_start_time_seconds"
	linkerdBuild = "proxy_build_info"
)

// noRelease is the version of proxies that were built without one.
const noRelease = "0.0.0-dev"

// LinkerdVersion returns the proxy's release according to its page, or the start of
// its commit if it was not built as a release.
func LinkerdVersion(metrics []Metric) (string, error) {
	for _, m := range metrics {
		if m.Name != linkerdBuild {
			continue
		}
		version, sha := m.Labels["version"], m.Labels["git_sha"]
		if (version == "" || strings.HasPrefix(version, noRelease)) && sha != "" {
			return sha[:min(len(sha), 12)], nil
		}
		if version != "" {
			return version, nil
		}
	}
	return "", fmt.Errorf("linkerd admin: the page of metrics has no %s with a version", linkerdBuild)
}

// LinkerdStats converts the series of a page that was read at taken.
func LinkerdStats(metrics []Metric, taken time.Time, wanted *regexp.Regexp) (ProxyStats, error) {
	start, found := Sum(metrics, linkerdStart, nil)
	if !found {
		return ProxyStats{}, fmt.Errorf("linkerd admin: the page of metrics has no %s", linkerdStart)
	}
	stats := seriesOf(metrics, wanted)
	stats.Taken, stats.Uptime = taken, taken.Sub(time.Unix(0, int64(start*1e9))).Truncate(time.Second)
	return stats, nil
}

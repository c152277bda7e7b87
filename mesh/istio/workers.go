package istio

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/meshmark/meshmark/record"
)

// workerStats are the statistics of connections by listener and worker
// thread: an accepted connection is counted where it is served, which is the
// listener that the redirected one hands it to.
const workerStats = `listener\..*\.worker_[0-9]+\.downstream_cx_(total|active)`

var workerStat = regexp.MustCompile(`^listener\.(.*)\.worker_([0-9]{1,4})\.downstream_cx_(total|active)$`)

// ownListeners end the names of the listeners that serve the mesh itself:
// readiness and metrics.
var ownListeners = []string{"_15021", "_15090"}

// WorkerConnections sorts a sidecar's connections by its worker threads: rise
// has how far its counters rose, now its statistics as they are.
func (*Mesh) WorkerConnections(rise, now map[string]float64) map[int]record.WorkerConnections {
	out := map[int]record.WorkerConnections{}
	add := func(values map[string]float64, kind string, into func(*record.WorkerConnections) *int64) {
		for name, value := range values {
			m := workerStat.FindStringSubmatch(name)
			if m == nil || m[3] != kind || ownListener(m[1]) {
				continue
			}
			worker, err := strconv.Atoi(m[2])
			if err != nil {
				continue
			}
			c := out[worker]
			*into(&c) += int64(value)
			out[worker] = c
		}
	}
	add(rise, "total", func(c *record.WorkerConnections) *int64 { return &c.Accepted })
	add(now, "active", func(c *record.WorkerConnections) *int64 { return &c.Open })
	return out
}

// WorkerStat reports whether a statistic is one of those.
func (*Mesh) WorkerStat(name string) bool { return workerStat.MatchString(name) }

func ownListener(name string) bool {
	for _, suffix := range ownListeners {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

package istio

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// workerStats are the connection statistics by listener and worker thread. An
// accepted connection counts where it is served: at the listener that the
// redirected connection is handed to.
const workerStats = `listener\..*\.worker_[0-9]+\.downstream_cx_total`

var workerStat = regexp.MustCompile(`^listener\.(.*)\.worker_([0-9]{1,4})\.downstream_cx_total$`)

// ownListeners are the name suffixes of the listeners that serve the mesh
// itself: readiness and metrics.
var ownListeners = []string{"_15021", "_15090"}

// AcceptedByWorker counts the connections that a sidecar accepted by worker
// thread; rise is the increase of its counters.
func (*Mesh) AcceptedByWorker(rise map[string]float64) map[int]int64 {
	out := map[int]int64{}
	for name, value := range rise {
		m := workerStat.FindStringSubmatch(name)
		own := func(suffix string) bool { return strings.HasSuffix(m[1], suffix) }
		if m == nil || slices.ContainsFunc(ownListeners, own) {
			continue
		}
		if worker, err := strconv.Atoi(m[2]); err == nil {
			out[worker] += int64(value)
		}
	}
	return out
}

// WorkerStat reports whether a statistic is one of workerStats.
func (*Mesh) WorkerStat(name string) bool { return workerStat.MatchString(name) }

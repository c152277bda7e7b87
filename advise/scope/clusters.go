package scope

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/meshtrial/meshtrial/internal/lines"
)

// maxClusterLine is the maximum length of a line of [ReadClusters], in bytes.
const maxClusterLine = 64 << 10

// ReadClusters reads the text that an Envoy answers to /clusters, as [ReadCounts] reads its JSON.
// Its lines are CLUSTER::ADDRESS::STATISTIC::VALUE; Envoy's source/server/admin/clusters_handler.cc
// writes them. Lines of other forms, and a last one that is cut, are skipped.
func ReadClusters(r io.Reader) (Counts, error) {
	t := tally{clusters: map[string]*clusterTally{}}
	number := 0
	for line, err := range lines.Of(r, maxClusterLine) {
		if err != nil {
			return Counts{}, fmt.Errorf("clusters: after %d lines: %w", number, err)
		}
		number++
		if cluster, address, stat, value, ok := clusterLine(line.Text); ok && !line.Long && !line.Cut {
			t.add(cluster, address, stat, value)
		}
	}
	if len(t.clusters) == 0 {
		return Counts{}, errors.New("clusters: no line has a counter of an endpoint")
	}
	return t.counts(), nil
}

// clusterLine splits a line with a counter of an endpoint. An IPv6 address has colons of its own.
func clusterLine(line []byte) (cluster, address, stat []byte, value int64, ok bool) {
	sep := []byte("::")
	cluster, rest, _ := bytes.Cut(line, sep)
	last := bytes.LastIndex(rest, sep)
	i := bytes.LastIndex(rest[:max(0, last)], sep)
	if len(cluster) == 0 || i <= 0 {
		return nil, nil, nil, 0, false
	}
	value, err := strconv.ParseInt(string(rest[last+2:]), 10, 64)
	address, stat = rest[:i], rest[i+2:last]
	return cluster, address, stat, value, err == nil && value >= 0 && !bytes.HasSuffix(address, []byte("_priority"))
}

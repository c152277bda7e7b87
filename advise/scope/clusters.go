package scope

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxClusterLine is the maximum length of a line of [ReadClusters], in bytes.
const maxClusterLine = 64 << 10

// ReadClusters reads the text that an Envoy answers to /clusters, as [ReadCounts] reads its JSON.
// Its lines are CLUSTER::ADDRESS::STATISTIC::VALUE; Envoy's source/server/admin/clusters_handler.cc
// writes them. Lines of other forms, and a last one that is cut, are skipped.
func ReadClusters(r io.Reader) (Counts, error) {
	out := Counts{Calls: map[string]int64{}, Endpoints: map[string]map[string]Count{}}
	in := bufio.NewReaderSize(r, maxClusterLine)
	var h textHost
	lines, kept := 0, 0
	take := func() {
		if h.cluster == "" {
			return
		}
		h.requests, h.connections = h.requests+h.total, h.connections+h.opened
		if h.total > 0 && kept < maxNames {
			if out.Endpoints[h.cluster] == nil {
				out.Endpoints[h.cluster] = map[string]Count{}
			}
			ended := h.ended || h.opened > 0 && h.total > h.opened
			out.Endpoints[h.cluster][h.address] = out.Endpoints[h.cluster][h.address].plus(Count{h.total, ended, h.open})
			kept++
		}
		h.total, h.opened, h.open, h.ended = 0, 0, 0, false
	}
	leave := func() {
		if _, known := out.Calls[h.cluster]; h.cluster != "" && (known || len(out.Calls) < maxNames) {
			out.Calls[h.cluster] += max(h.requests, h.connections)
		}
		h.requests, h.connections = 0, 0
	}
	for {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return Counts{}, fmt.Errorf("clusters: after %d lines: %w", lines, err)
		}
		lines++
		if whole := bytes.HasSuffix(line, []byte("\n")); whole && !long {
			if cluster, address, stat, value, ok := clusterLine(bytes.TrimRight(line, "\r\n")); ok {
				if string(cluster) != h.cluster || string(address) != h.address {
					take()
					if string(cluster) != h.cluster {
						leave()
						h.cluster = string(cluster)
					}
					h.address = string(address)
				}
				h.add(string(stat), value)
			}
		}
		if err != nil {
			break
		}
	}
	take()
	leave()
	if len(out.Calls) == 0 {
		return Counts{}, errors.New("clusters: no line has a counter of an endpoint")
	}
	return out, nil
}

// textHost is the endpoint whose lines are being read, with the sums of its cluster so far.
type textHost struct {
	cluster, address      string
	total, opened, open   int64 // requests, connections, and connections still open
	ended                 bool
	requests, connections int64
}

func (h *textHost) add(stat string, value int64) {
	switch stat {
	case "rq_total":
		h.total += value
	case "cx_total":
		h.opened += value
	case "cx_active":
		h.open += value
	case "rq_success", "rq_error":
		h.ended = h.ended || value > 0
	}
}

// clusterLine splits a line with a counter of an endpoint. An IPv6 address has colons of its own.
func clusterLine(line []byte) (cluster, address, stat []byte, value int64, ok bool) {
	sep := []byte("::")
	first, last := bytes.Index(line, sep), bytes.LastIndex(line, sep)
	if first <= 0 || last <= first {
		return nil, nil, nil, 0, false
	}
	middle := line[first+2 : max(first+2, last)]
	i := bytes.LastIndex(middle, sep)
	if i <= 0 {
		return nil, nil, nil, 0, false
	}
	address, stat = middle[:i], middle[i+2:]
	value, err := strconv.ParseInt(string(line[last+2:]), 10, 64)
	if err != nil || value < 0 || bytes.HasSuffix(address, []byte("_priority")) {
		return nil, nil, nil, 0, false
	}
	return line[:first], address, stat, value, true
}

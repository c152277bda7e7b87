package kubelet

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe"
)

// maxPage limits the size of a kubelet's response, in bytes. The page of a node
// with 500 pods has about 1 MB.
const maxPage = 64 << 20

// Container names a container on a node.
type Container struct {
	Pod  string // NAMESPACE/NAME
	Name string // "" for the whole pod, with its sandbox
}

// Stats has a kubelet's latest values for a container or for its node.
type Stats struct {
	CPU Sample
	// Memory is the working set at MemoryAt, in bytes, excluding reclaimable file
	// pages; 0 if unknown.
	Memory   int64
	MemoryAt time.Time
}

// Page is a kubelet's response.
type Page struct {
	Node Stats
	// Containers has the containers and pods with a CPU sample.
	Containers map[Container]Stats
}

// Parse parses the page /metrics/resource: counters, each with a time in
// milliseconds. (The document /stats/summary has the same data with times in
// seconds, which is too coarse.)
func Parse(page []byte) (Page, error) {
	metrics, err := observe.ParsePrometheus(page)
	if err != nil {
		return Page{}, fmt.Errorf("the kubelet's metrics: %w", err)
	}
	out := Page{Containers: map[Container]Stats{}}
	memory, since := map[Container]Stats{}, map[Container]time.Time{}
	for _, m := range metrics {
		c := Container{m.Labels["namespace"] + "/" + m.Labels["pod"], m.Labels["container"]}
		if m.Name == "container_start_time_seconds" && m.Value > 0 && m.Value < mostCPU { // which has no timestamp
			since[c] = time.UnixMilli(int64(math.Round(m.Value * 1e3)))
		}
		cpu := strings.HasSuffix(m.Name, "_cpu_usage_seconds_total")
		if m.AtMS <= 0 || !(m.Value >= 0 && m.Value < 1<<62) || cpu && m.Value > mostCPU {
			continue // no sample, or one without an existing object
		}
		at := time.UnixMilli(m.AtMS)
		switch m.Name {
		case "node_cpu_usage_seconds_total":
			out.Node.CPU = sampleOf(at, m.Value)
		case "node_memory_working_set_bytes":
			out.Node.Memory, out.Node.MemoryAt = int64(m.Value), at
		case "container_cpu_usage_seconds_total", "pod_cpu_usage_seconds_total":
			if at.After(out.Containers[c].CPU.At) { // if one container replaced another, take the newer one
				out.Containers[c] = Stats{CPU: sampleOf(at, m.Value)}
			}
		case "container_memory_working_set_bytes", "pod_memory_working_set_bytes":
			memory[c] = Stats{Memory: int64(m.Value), MemoryAt: at}
		}
	}
	for c, known := range out.Containers {
		known.Memory, known.MemoryAt, known.CPU.Since = memory[c].Memory, memory[c].MemoryAt, since[c]
		out.Containers[c] = known
	}
	return out, nil
}

// mostCPU is the largest number of seconds that fits a counter of nanoseconds.
const mostCPU = math.MaxInt64 / 1e9

// sampleOf converts a counter in seconds.
func sampleOf(at time.Time, seconds float64) Sample {
	return Sample{At: at, UsedNS: uint64(math.Round(seconds * 1e9))}
}

// Read reads a node's kubelet through the API server. It requires the permission
// get nodes/proxy.
func Read(ctx context.Context, api rest.Interface, node string) (Page, error) {
	body, err := api.Get().AbsPath("/api/v1/nodes", node, "proxy/metrics/resource").Stream(ctx)
	var page []byte
	if err == nil {
		defer body.Close()
		if page, err = io.ReadAll(io.LimitReader(body, maxPage+1)); err == nil && len(page) > maxPage {
			err = fmt.Errorf("its answer is longer than %d bytes", maxPage)
		}
	}
	if err != nil {
		err = fmt.Errorf("ask the kubelet of node %s: %w", node, err)
		if apierrors.IsForbidden(err) {
			err = errs.WithHint(err, "it takes the right to get nodes/proxy")
		}
		return Page{}, err
	}
	out, err := Parse(page)
	if err != nil {
		return Page{}, fmt.Errorf("node %s: %w", node, err)
	}
	return out, nil
}

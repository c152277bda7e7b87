package kubelet

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// maxPage bounds what is read of a kubelet's answer, in bytes: a node of 500
// pods has some 1 MB.
const maxPage = 64 << 20

// Container names a container on a node.
type Container struct {
	Pod  string // NAMESPACE/NAME
	Name string // "" for the whole pod, with its sandbox
}

// Stats are what a kubelet last knew of a container, or of its node.
type Stats struct {
	CPU Sample
	// Memory is the working set in bytes, without the files that the kernel could
	// drop, at MemoryAt; 0 where it is not known.
	Memory   int64
	MemoryAt time.Time
}

// Page is a kubelet's answer.
type Page struct {
	Node Stats
	// Containers has those, and pods, of which a sample of CPU is known.
	Containers map[Container]Stats
}

// Parse reads the page /metrics/resource: counters with the time of each to the
// millisecond. (The document /stats/summary has the same with times to the second,
// which is too coarse to divide by.)
func Parse(page []byte) (Page, error) {
	metrics, err := observe.ParsePrometheus(page)
	if err != nil {
		return Page{}, fmt.Errorf("the kubelet's metrics: %w", err)
	}
	out := Page{Containers: map[Container]Stats{}}
	memory, since := map[Container]Stats{}, map[Container]time.Time{}
	for _, m := range metrics {
		c := Container{m.Labels["namespace"] + "/" + m.Labels["pod"], m.Labels["container"]}
		if m.Name == "container_start_time_seconds" && m.Value > 0 && m.Value < mostCPU { // which has no time of its own
			since[c] = time.UnixMilli(int64(math.Round(m.Value * 1e3)))
		}
		cpu := strings.HasSuffix(m.Name, "_cpu_usage_seconds_total")
		if m.AtMS <= 0 || !(m.Value >= 0 && m.Value < 1<<62) || cpu && m.Value > mostCPU {
			continue // no sample, or one of nothing that exists
		}
		at := time.UnixMilli(m.AtMS)
		switch m.Name {
		case "node_cpu_usage_seconds_total":
			out.Node.CPU = sampleOf(at, m.Value)
		case "node_memory_working_set_bytes":
			out.Node.Memory, out.Node.MemoryAt = int64(m.Value), at
		case "container_cpu_usage_seconds_total", "pod_cpu_usage_seconds_total":
			if at.After(out.Containers[c].CPU.At) { // of one that ended and one that took its place, the latter
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

// mostCPU, in seconds, still fits a counter of nanoseconds.
const mostCPU = math.MaxInt64 / 1e9

// sampleOf is a counter in seconds.
func sampleOf(at time.Time, seconds float64) Sample {
	return Sample{At: at, UsedNS: uint64(math.Round(seconds * 1e9))}
}

// Read asks a node's kubelet through the API server. It takes the right to get
// nodes/proxy.
func Read(ctx context.Context, api rest.Interface, node string) (Page, error) {
	body, err := api.Get().AbsPath("/api/v1/nodes", node, "proxy/metrics/resource").Stream(ctx)
	if apierrors.IsForbidden(err) {
		return Page{}, errs.WithHint(fmt.Errorf("ask the kubelet of node %s: %w", node, err), "it takes the right to get nodes/proxy")
	}
	if err != nil {
		return Page{}, fmt.Errorf("ask the kubelet of node %s: %w", node, err)
	}
	defer body.Close()
	page, err := io.ReadAll(io.LimitReader(body, maxPage+1))
	if err == nil && len(page) > maxPage {
		err = fmt.Errorf("its answer is longer than %d bytes", maxPage)
	}
	if err != nil {
		return Page{}, fmt.Errorf("ask the kubelet of node %s: %w", node, err)
	}
	out, err := Parse(page)
	if err != nil {
		return Page{}, fmt.Errorf("node %s: %w", node, err)
	}
	return out, nil
}

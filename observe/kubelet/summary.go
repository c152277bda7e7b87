package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// maxSummary bounds what is read of a kubelet's answer, in bytes: a node of 500
// pods has some 2 MB.
const maxSummary = 64 << 20

// Container names a container on a node.
type Container struct {
	PodUID string
	Name   string // "" for the whole pod, with its sandbox
}

// Stats are what a kubelet last knew of a container, or of its node.
type Stats struct {
	CPU Sample
	// Memory is the working set in bytes, without the files that the kernel could
	// drop, at MemoryAt; 0 where it is not known.
	Memory   int64
	MemoryAt time.Time
	// Started is when the container began; zero where it is not known.
	Started time.Time
}

// Summary is a kubelet's answer.
type Summary struct {
	Node Stats
	// Containers has those, and pods, of which a sample of CPU is known.
	Containers map[Container]Stats
}

// stats are what nodes, pods and containers have in common, as the kubelet
// writes it (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
type stats struct {
	StartTime time.Time `json:"startTime"`
	CPU       *struct {
		Time  time.Time `json:"time"`
		Usage *uint64   `json:"usageCoreNanoSeconds"`
	} `json:"cpu"`
	Memory *struct {
		Time       time.Time `json:"time"`
		WorkingSet *uint64   `json:"workingSetBytes"`
	} `json:"memory"`
}

// known are the stats, if CPU time was sampled at all.
func (s stats) known() (Stats, bool) {
	if s.CPU == nil || s.CPU.Usage == nil || s.CPU.Time.IsZero() {
		return Stats{}, false
	}
	out := Stats{CPU: Sample{At: s.CPU.Time, UsedNS: *s.CPU.Usage}, Started: s.StartTime}
	if m := s.Memory; m != nil && m.WorkingSet != nil && *m.WorkingSet < 1<<63 {
		out.Memory, out.MemoryAt = int64(*m.WorkingSet), m.Time
	}
	return out, true
}

// Parse reads the document of /stats/summary.
func Parse(document []byte) (Summary, error) {
	var doc struct {
		Node stats `json:"node"`
		Pods []struct {
			stats
			Ref struct {
				UID string `json:"uid"`
			} `json:"podRef"`
			Containers []struct {
				stats
				Name string `json:"name"`
			} `json:"containers"`
		} `json:"pods"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return Summary{}, fmt.Errorf("the kubelet's summary: %w", err)
	}
	out := Summary{Containers: map[Container]Stats{}}
	out.Node, _ = doc.Node.known()
	add := func(c Container, s stats) {
		if known, ok := s.known(); ok && c.PodUID != "" {
			out.Containers[c] = known
		}
	}
	for _, pod := range doc.Pods {
		add(Container{PodUID: pod.Ref.UID}, pod.stats)
		for _, c := range pod.Containers {
			if c.Name != "" {
				add(Container{pod.Ref.UID, c.Name}, c.stats)
			}
		}
	}
	return out, nil
}

// Read asks a node's kubelet through the API server. It takes the right to get
// nodes/proxy.
func Read(ctx context.Context, api rest.Interface, node string) (Summary, error) {
	body, err := api.Get().AbsPath("/api/v1/nodes", node, "proxy/stats/summary").Param("only_cpu_and_memory", "true").Stream(ctx)
	if apierrors.IsForbidden(err) {
		return Summary{}, errs.WithHint(fmt.Errorf("ask the kubelet of node %s: %w", node, err), "it takes the right to get nodes/proxy")
	}
	if err != nil {
		return Summary{}, fmt.Errorf("ask the kubelet of node %s: %w", node, err)
	}
	defer body.Close()
	document, err := io.ReadAll(io.LimitReader(body, maxSummary+1))
	if err == nil && len(document) > maxSummary {
		err = fmt.Errorf("its answer is longer than %d bytes", maxSummary)
	}
	if err != nil {
		return Summary{}, fmt.Errorf("ask the kubelet of node %s: %w", node, err)
	}
	summary, err := Parse(document)
	if err != nil {
		return Summary{}, fmt.Errorf("node %s: %w", node, err)
	}
	return summary, nil
}

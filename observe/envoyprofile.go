package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// Profiles that Envoy's admin interface offers beside [ProfileCPU] and
// [ProfileHeap], where its build has them.
const (
	ProfilePeakHeap = "peak-heap" // memory in use when there was most of it
	ProfileAlloc    = "alloc"     // memory allocated over some seconds
)

// ErrNoProfiler is the error of an Envoy whose build lacks what was asked for.
var ErrNoProfiler = errors.New("this Envoy does not offer it")

// FetchEnvoyProfile takes a profile from Envoy's admin interface, in pprof's
// form, and notes that belong to it. Which there are depends on the build:
// upstream's, with TCMalloc, samples allocations, and has no CPU profiler.
// Addresses in it have no names. What it refuses comes back with what it said;
// the error wraps [ErrNoProfiler].
//
// The endpoints are those of source/server/admin/profiling_handler.cc.
func FetchEnvoyProfile(ctx context.Context, proxy Replica, kind string, length time.Duration) (data []byte, notes []string, err error) {
	switch kind {
	case ProfileHeap:
		data, err = proxy.envoy(ctx, http.MethodGet, "/heap_dump", kind)
	case ProfilePeakHeap:
		data, err = proxy.envoy(ctx, http.MethodGet, "/peak_heap_dump", kind)
	case ProfileAlloc, ProfileCPU:
		data, err = proxy.switched(ctx, kind, length)
	default:
		return nil, nil, errs.Usage("Envoy's admin interface has no %s profile: it takes %s, %s, %s or %s", kind, ProfileCPU, ProfileHeap, ProfilePeakHeap, ProfileAlloc)
	}
	if err != nil {
		return nil, nil, err
	}
	return data, proxy.memoryNotes(ctx), nil
}

// switched takes a profile that is switched on and off again.
func (r Replica) switched(ctx context.Context, kind string, length time.Duration) ([]byte, error) {
	path := "/allocprofiler?enable="
	if kind == ProfileCPU {
		path = "/cpuprofiler?enable="
	}
	if _, err := r.envoy(ctx, http.MethodPost, path+"y", kind); err != nil {
		return nil, err
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	var waited error
	select {
	case <-timer.C:
	case <-ctx.Done():
		waited = ctx.Err()
	}
	// Also when nobody waits any more: it would go on for ever.
	off, cancel := ending.Within(ctx, 10*time.Second)
	defer cancel()
	data, err := r.envoy(off, http.MethodPost, path+"n", kind)
	if err = errors.Join(waited, err); err != nil {
		return nil, err
	}
	if kind == ProfileCPU {
		return nil, errs.WithHint(errors.New("Envoy has taken a CPU profile, and written it into a file of its own: admin.profile_path of its bootstrap, by default /var/log/envoy/envoy.prof"),
			"copy the file, make it pprof's form by `pprof -proto ENVOY FILE`, and read that; or take the profile by perf: meshtrial profile POD")
	}
	return data, nil
}

// envoy asks the admin interface for something.
func (r Replica) envoy(ctx context.Context, method, path, kind string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url(path), nil)
	if err != nil {
		return nil, err
	}
	answer, err := r.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s profile of %s: %w", kind, r.Name, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("%s profile of %s: %w", kind, r.Name, err)
	}
	if len(data) > maxProfile {
		return nil, fmt.Errorf("%s profile of %s: more than %d MiB", kind, r.Name, maxProfile>>20)
	}
	// What is no profile may be a sentence that came with 200.
	packed := len(data) > 1 && data[0] == 0x1f && data[1] == 0x8b
	if answer.StatusCode == http.StatusOK && (packed || !isProfile(path)) {
		return data, nil
	}
	err = fmt.Errorf("%s profile of %s: %s %s answered %d: %.200s: %w", kind, r.Name, method, path, answer.StatusCode, strings.TrimSpace(string(data)), ErrNoProfiler)
	if kind == ProfileCPU {
		return nil, errs.WithHint(err, "take it by perf: meshtrial profile POD, or --pid")
	}
	return nil, errs.WithHint(err, "builds with TCMalloc offer heap, peak-heap and alloc; upstream's are some")
}

// isProfile tells the endpoints that answer a profile.
func isProfile(path string) bool {
	return strings.HasSuffix(path, "heap_dump") || path == "/allocprofiler?enable=n"
}

// memoryNotes is what /memory and /contention say, for people.
func (r Replica) memoryNotes(ctx context.Context) (notes []string) {
	if data, err := r.envoy(ctx, http.MethodGet, "/memory", "memory"); err == nil {
		var m struct {
			Allocated int64 `json:"allocated,string"`
			Heap      int64 `json:"heap_size,string"`
			Physical  int64 `json:"total_physical_bytes,string"`
		}
		if json.Unmarshal(data, &m) == nil && m.Allocated > 0 {
			notes = append(notes, fmt.Sprintf("Envoy's /memory: %.1f MB allocated of a heap of %.1f MB, %.1f MB of it resident. The profile has samples of them, one for each 2 MB or so", float64(m.Allocated)/1e6, float64(m.Heap)/1e6, float64(m.Physical)/1e6))
		}
	}
	if data, err := r.envoy(ctx, http.MethodGet, "/contention", "contention"); err == nil {
		var c struct {
			Contentions int64 `json:"num_contentions,string"`
			Cycles      int64 `json:"lifetime_wait_cycles,string"`
		}
		if json.Unmarshal(data, &c) == nil {
			notes = append(notes, fmt.Sprintf("Envoy's /contention: threads waited for each other's locks %d times, %d CPU cycles in all", c.Contentions, c.Cycles))
		} else {
			notes = append(notes, "Envoy's /contention: "+strings.TrimSpace(string(data[:min(len(data), 200)])))
		}
	}
	return notes
}

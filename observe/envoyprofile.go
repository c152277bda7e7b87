package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// Profiles that Envoy's admin interface offers in addition to [ProfileHeap], if its
// build includes them.
const (
	ProfilePeakHeap = "peak-heap" // memory in use at its peak
	ProfileAlloc    = "alloc"     // memory allocated over some seconds
)

// ErrNoProfiler is returned if Envoy's build lacks the requested profile.
var ErrNoProfiler = errors.New("this Envoy does not offer it")

// FetchEnvoyProfile takes a memory profile from Envoy's admin interface, in pprof
// format. The available profiles depend on the build: builds with TCMalloc, such as
// upstream's, sample allocations. Addresses are not symbolized. If Envoy refuses, the
// error contains its response and wraps [ErrNoProfiler].
//
// The endpoints are those of source/server/admin/profiling_handler.cc.
func FetchEnvoyProfile(ctx context.Context, proxy Replica, kind string, length time.Duration) ([]byte, error) {
	switch kind {
	case ProfileHeap:
		return proxy.memory(ctx, http.MethodGet, "/heap_dump", kind)
	case ProfilePeakHeap:
		return proxy.memory(ctx, http.MethodGet, "/peak_heap_dump", kind)
	case ProfileAlloc:
		return proxy.allocations(ctx, length)
	}
	return nil, errs.WithHint(errs.Usage("Envoy's admin interface has no %s profile: it takes %s, %s or %s", kind, ProfileHeap, ProfilePeakHeap, ProfileAlloc),
		"perf takes CPU profiles: meshtrial profile POD, or --pid")
}

// allocations switches the profiler on and off again.
func (r Replica) allocations(ctx context.Context, length time.Duration) ([]byte, error) {
	const path = "/allocprofiler?enable="
	if _, err := fetch(ctx, r.HTTP, http.MethodPost, r.url(path+"y"), "alloc profile of "+r.Name, maxProfile); err != nil {
		return nil, noProfiler(err)
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	var waited error
	select {
	case <-timer.C:
	case <-ctx.Done():
		waited = ctx.Err()
	}
	// Stop it even after cancellation; it would otherwise run forever.
	off, cancel := ending.Within(ctx, 10*time.Second)
	defer cancel()
	data, err := r.memory(off, http.MethodPost, path+"n", ProfileAlloc)
	return data, errors.Join(waited, err)
}

// memory reads a profile. A response with status 200 may be an error message instead of
// a profile.
func (r Replica) memory(ctx context.Context, method, path, kind string) ([]byte, error) {
	what := kind + " profile of " + r.Name
	data, err := fetch(ctx, r.HTTP, method, r.url(path), what, maxProfile)
	if err == nil && !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		err = &StatusError{http.StatusOK, fmt.Sprintf("%s: %.200s", what, bytes.TrimSpace(data))}
	}
	return data, noProfiler(err)
}

func noProfiler(err error) error {
	if status := (*StatusError)(nil); errors.As(err, &status) {
		return errs.WithHint(fmt.Errorf("%w: %w", err, ErrNoProfiler), "builds with TCMalloc offer heap, peak-heap and alloc; upstream's are some")
	}
	return err
}

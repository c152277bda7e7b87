package observe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Profiles that a Go server offers under /debug/pprof.
const (
	ProfileCPU   = "cpu"   // over some seconds
	ProfileMutex = "mutex" // time waited for locks, since the start
	ProfileBlock = "block" // time blocked, since the start
	ProfileHeap  = "heap"  // memory in use
)

// maxProfile bounds what is read of a profile, in bytes.
const maxProfile = 64 << 20

// FetchProfile takes a profile of a server, in pprof's own gzipped form. A CPU
// profile takes the seconds asked for, and costs the server about 100 samples
// a second; mutex and block profiles count from the server's start, so that
// the difference of two tells of a window (profile.Since).
func FetchProfile(ctx context.Context, server Replica, kind string, length time.Duration) ([]byte, error) {
	path := "/debug/pprof/" + kind
	if kind == ProfileCPU {
		path = fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(length.Round(time.Second).Seconds())))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.url(path), nil)
	if err != nil {
		return nil, err
	}
	answer, err := server.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s profile of %s: %w", kind, server.Name, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, &StatusError{Code: answer.StatusCode, What: kind + " profile of " + server.Name}
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("%s profile of %s: %w", kind, server.Name, err)
	}
	if len(data) > maxProfile {
		return nil, fmt.Errorf("%s profile of %s: more than %d MiB", kind, server.Name, maxProfile>>20)
	}
	return data, nil
}

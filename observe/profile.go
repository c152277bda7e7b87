package observe

import (
	"context"
	"fmt"
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

// FetchProfile takes a profile of a server, in pprof's gzipped format. A CPU
// profile takes length and costs the server about 100 samples a second. Mutex
// and block profiles count from the server's start, so the difference of two of
// them covers a window (profile.Since).
func FetchProfile(ctx context.Context, server Replica, kind string, length time.Duration) ([]byte, error) {
	path := "/debug/pprof/" + kind
	if kind == ProfileCPU {
		path = fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(length.Round(time.Second).Seconds())))
	}
	return fetch(ctx, server.HTTP, http.MethodGet, server.url(path), kind+" profile of "+server.Name, maxProfile)
}

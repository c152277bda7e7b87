package xds_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

// TestFleetsLeaveNothing checks that a process that serves one fleet after another,
// hundreds in a soak, keeps nothing of those that were stopped.
func TestFleetsLeaveNothing(t *testing.T) {
	const (
		fleets, proxies = 12, 50
		limit           = 64 << 10 // bytes per fleet; a running one holds about a megabyte
	)
	_, address := serveSynthetic(t, 300)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	one := func() {
		f, err := xds.Start(ctx, testSpec(address, proxies))
		must.OK(t, err)
		defer f.Stop()
		eventually.Holds(t, "all proxies are synced", func() bool { return f.Status().Synced == proxies })
	}
	live := func() (bytes int64) {
		for range 3 {
			time.Sleep(50 * time.Millisecond) // let the server notice that streams have ended
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	one()
	before := live()
	for range fleets {
		one()
	}
	each := (live() - before) / fleets
	t.Logf("%d bytes stay of a fleet", each)
	if each > limit {
		t.Errorf("%d bytes stay of a fleet that was stopped, want at most %d", each, limit)
	}
}

// serveSynthetic serves the configuration of synthetic Services with two endpoints for
// the duration of a test.
func serveSynthetic(t *testing.T, services int) (s *xdsserver.Server, address string) {
	t.Helper()
	c, err := xdsserver.Synthetic(services, 2)
	must.OK(t, err)
	s = xdsserver.New(c)
	return s, loopback.Serve(t, s.Serve, s.Close)
}

package xds

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// Status returns the state of the fleet.
func (f *Fleet) Status() Status {
	s := Status{
		Proxies: len(f.proxies), Connected: int(f.connected.Load()), Synced: int(f.synced.Load()), EverSynced: int(f.everSynced.Load()),
		LastMessageUnixNS: f.lastMessage.Load(), LastChangeUnixNS: f.lastChange.Load(), NowUnixNS: time.Now().UnixNano(),
		Markers: len(*f.catalogue.markers.Load()), Waiting: map[string]int{},
	}
	for i := range f.spec.Proxies {
		switch f.spec.Proxies[i].nodeType() {
		case NodeRouter:
			s.Gateways++
		case NodeZtunnel:
			s.Ztunnels++
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.LastError = f.lastError
	for _, reason := range f.waiting {
		s.Waiting[reason]++
	}
	return s
}

// Account returns the fleet's counters since its start. Its lags are since the previous
// account.
func (f *Fleet) Account() Account {
	a := Account{
		UnixNS: time.Now().UnixNano(), Proxies: len(f.proxies), Connected: int(f.connected.Load()), Synced: int(f.synced.Load()),
		Wire: map[string]record.Wire{}, Errors: f.malformed.Load(), CPU: ownCPU(), RSSBytes: ownRSS(),
	}
	a.Sizes, a.ZtunnelSizes = f.sizes()
	a.medians()
	for k := range kinds { // two of them have the same name
		a.Wire[k.String()] = a.Wire[k.String()].Plus(f.wire[k].record())
	}
	if len(a.ZtunnelSizes) > 0 {
		a.ZtunnelWire = map[string]record.Wire{}
		for _, k := range ztunnelKinds {
			a.ZtunnelWire[k.String()] = f.wire[k].record()
		}
	}
	if other := f.wire[kinds].record(); other.Responses > 0 {
		a.Wire["other"] = other
	}
	a.Reconnects = f.ended()
	convergence := f.convergence.take(false)
	f.lags(&a)
	a.Convergence = convergence.counted()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	a.HeapBytes = int64(m.HeapInuse)
	return a
}

// maxUnstamped is the share of reads without a kernel timestamp above which the rest
// are not representative.
const maxUnstamped = 0.01

// lags sets how late the fleet was since the previous account: from kernel timestamps,
// if reads had them, else from the heartbeat.
func (f *Fleet) lags(a *Account) {
	kernel, timer, unstamped := f.lag.take(true), f.timerLag.take(true), f.unstamped.Swap(0)
	a.StampedReads, a.UnstampedReads = kernel.total, unstamped
	a.TimerLag = timer.quantiles()
	turns := f.turns.take(true)
	a.Turn = turns.quantiles()
	a.Lag, a.LagSource, a.LagCount = kernel.quantiles(), LagKernel, kernel.total
	if kernel.total == 0 || float64(unstamped) > maxUnstamped*float64(kernel.total+unstamped) {
		a.Lag, a.LagSource, a.LagCount = a.TimerLag, LagTimer, timer.total
	}
}

func (c *counts) counted() record.Counted {
	return record.Counted{Count: c.total, Quantiles: c.quantiles()}
}

// quantiles returns the quantiles in microseconds.
func (c *counts) quantiles() (out record.Quantiles) {
	if c.total > 0 {
		out = record.QuantilesOf(c.quantile)
	}
	return out
}

// sizes returns the number of bytes that proxies hold, separately for ztunnels.
func (f *Fleet) sizes() (proxies, ztunnels sizesOfAll) {
	proxies = sizesOfAll{}
	for i := range f.proxies {
		p := &f.proxies[i]
		to := proxies
		if p.spec.nodeType() == NodeZtunnel {
			if ztunnels == nil {
				ztunnels = sizesOfAll{}
			}
			to = ztunnels
		}
		for k := range kinds {
			if slices.Contains(ztunnelKinds, k) == (p.spec.nodeType() == NodeZtunnel) {
				to.add(p.spec.Namespace, k.String(), p.tables[k].Load().bytes, 1)
			}
		}
	}
	return proxies, ztunnels
}

// medians sets the median bytes that a proxy holds.
func (a *Account) medians() {
	a.Config, a.NamespaceConfig = a.Sizes.medians()
	if len(a.ZtunnelSizes) > 0 {
		a.ZtunnelConfig, _ = a.ZtunnelSizes.medians()
	}
}

// ownCPU returns the CPU time of this process.
func ownCPU() record.CPU {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return record.CPU{}
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return record.CPU{UserS: seconds(u.Utime), SystemS: seconds(u.Stime)}
}

// ownRSS returns the resident memory of this process in bytes; 0 if unknown.
func ownRSS() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64 // pages
	if _, err := fmt.Sscan(string(data), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

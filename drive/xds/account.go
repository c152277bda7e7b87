package xds

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// Status says how the fleet stands.
func (f *Fleet) Status() Status {
	s := Status{
		Proxies: len(f.proxies), Connected: int(f.connected.Load()), Synced: int(f.synced.Load()), EverSynced: int(f.everSynced.Load()),
		LastMessageUnixNS: f.lastMessage.Load(), LastChangeUnixNS: f.lastChange.Load(), NowUnixNS: time.Now().UnixNano(),
		Markers: len(*f.catalogue.markers.Load()),
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
		if s.Waiting == nil {
			s.Waiting = map[string]int{}
		}
		s.Waiting[reason]++
	}
	return s
}

// Account returns what the fleet has counted since its start. The lags in it
// are those since the account before.
func (f *Fleet) Account() Account {
	a := Account{
		UnixNS: time.Now().UnixNano(), Proxies: len(f.proxies), Connected: int(f.connected.Load()), Synced: int(f.synced.Load()),
		Wire: map[string]record.Wire{}, Errors: f.malformed.Load(), CPU: ownCPU(), RSSBytes: ownRSS(),
	}
	a.Sizes, a.ZtunnelSizes = f.sizes()
	a.medians()
	a.Behind = f.behind()
	for k := range kinds { // of which two have one name
		a.Wire[k.String()] = plus(a.Wire[k.String()], f.wire[k].record())
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
	f.mu.Lock()
	for _, conn := range f.stopped {
		unread, alive := conn.Unread()
		a.StoppedReading++
		a.UnreadBytes += int64(unread)
		if !alive {
			a.StoppedLost++
		}
	}
	f.mu.Unlock()
	convergence := f.convergence.take(false)
	f.lags(&a)
	a.Convergence = convergence.counted()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	a.HeapBytes = int64(m.HeapInuse)
	return a
}

// maxUnstamped is the share of reads without the kernel's time from which on
// those with one no longer speak for all.
const maxUnstamped = 0.01

// lags fills in how late the fleet was since the account before: by the
// kernel's stamps where reads had them, else by the heartbeat, which goes on
// whether anything is read or not.
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

// quantiles are in microseconds.
func (c *counts) quantiles() (out record.Quantiles) {
	if c.total > 0 {
		out = record.QuantilesOf(c.quantile)
	}
	return out
}

// sizes says how many bytes proxies hold, ztunnels apart from the others.
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

// medians fills in what one proxy holds.
func (a *Account) medians() {
	a.Config, a.NamespaceConfig = a.Sizes.medians()
	if len(a.ZtunnelSizes) > 0 {
		a.ZtunnelConfig, _ = a.ZtunnelSizes.medians()
	}
}

// ownCPU is the processor time of this process.
func ownCPU() record.CPU {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return record.CPU{}
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return record.CPU{UserS: seconds(u.Utime), SystemS: seconds(u.Stime)}
}

// ownRSS is the resident memory of this process in bytes; 0 if it cannot be
// read.
func ownRSS() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

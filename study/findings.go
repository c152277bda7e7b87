package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// Units of findings.
const (
	UnitMicroseconds = "us"
	UnitPerRequest   = "us/request"
	UnitBytes        = "bytes"

	UnitPerChange        = "us/change"
	UnitBytesPerChange   = "bytes/change"
	UnitPushes           = "pushes"
	UnitPushesPerChange  = "pushes/change"
	UnitSecondsPerChange = "s/change" // proxy-seconds, which no factor of a thousand makes handier
	UnitChanges          = "changes"
	UnitResources        = "resources"
	UnitRequests         = "requests"
	UnitMissed           = "missed" // pairs of a change and a proxy
	UnitCores            = "cores"
	UnitGoroutines       = "goroutines"
	UnitBytesPerSecond   = "bytes/s"
	UnitRatio            = "ratio"
	UnitPerSecond        = "1/s"
)

// Beginnings of the names of findings about a proxy's threads, each followed
// by the part ("worker_busiest_client_proxy"); see [dataFindings].
const (
	FindingBusiestWorker = "worker_busiest"
	FindingImbalance     = "worker_imbalance"
	FindingWorkerWait    = "worker_wait"
	FindingThrottled     = "throttled"
	FindingInvoluntary   = "involuntary_switches"
	FindingLimit         = "limit"
)

// Beginnings of the names of findings of a bill: what a part adds to the base,
// and what all but a part save of all together. Each is followed by what is
// priced ("bill_cpu", "saved_latency_p50"); see [BillMeasures].
const (
	FindingBill  = "bill"
	FindingSaved = "saved"
	// FindingInteraction is what all together cost beyond the parts' sum.
	FindingInteraction = "bill_interaction"
	// FindingBillSum is what the parts cost by themselves, added up.
	FindingBillSum = "bill_sum"
)

// What a bill prices.
const (
	BillCPU       = "cpu" // of all proxies
	BillClientCPU = "cpu_client_proxy"
	BillServerCPU = "cpu_server_proxy"
	BillP50       = "latency_p50"
	BillP99       = "latency_p99"
	BillMemory    = "memory" // of all proxies, idle
	BillShare     = "share"  // of the CPU of all proxies where the part is on
	BillMoney     = "money"  // a month, of the study's mesh
)

// BillMeasures lists them.
func BillMeasures() []string {
	return []string{BillCPU, BillClientCPU, BillServerCPU, BillP50, BillP99, BillMemory, BillShare, BillMoney}
}

// billUnit is the unit of a finding of a bill, "" for others.
func billUnit(name string) string {
	if name == FindingInteraction || name == FindingBillSum {
		return UnitPerRequest
	}
	which, what, _ := strings.Cut(name, "_")
	switch {
	case which != FindingBill && which != FindingSaved || !has(BillMeasures(), what):
		return ""
	case what == BillShare:
		return UnitRatio
	case what == BillMoney:
		return unitMoney
	case what == BillMemory:
		return UnitBytes
	case strings.HasPrefix(what, "cpu"):
		return UnitPerRequest
	}
	return UnitMicroseconds
}

// FindingNames lists the findings of all planes that a stop rule, a published
// figure or an assertion can name.
func FindingNames() []string {
	var out []string
	for _, p := range Planes() {
		for _, name := range FindingNamesOf(p) {
			if !has(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// FindingNamesOf lists the findings of a plane's studies.
func FindingNamesOf(p Plane) []string {
	table := controlFindings
	switch p {
	case PlaneData:
		return dataFindings()
	case PlaneResilience:
		table = scenarioFindings
	}
	out := make([]string, len(table))
	for i, f := range table {
		out[i] = f.name
	}
	return out
}

// savedNames are shares of what cells with filters in the server's proxy use
// that go without them, or with a Lua script in their place.
var savedNames = []string{"cpu_server_proxy_saved_by_none", "cpu_server_proxy_saved_by_lua", "latency_p50_saved_by_none", "latency_p50_saved_by_lua"}

// dataFindings lists the findings of data-plane studies:
//
//	latency_pNN            a percentile of a cell, by intended time
//	latency_pNN_overhead   its difference to the baseline
//	cpu_PART_per_request   CPU time of a part
//	cpu_machine_per_request_overhead
//	memory_PART            proportional set size of a part
//	worker_busiest_PART    share of the time for which a proxy's busiest worker thread ran
//	worker_imbalance_PART  how much more than the mean of the workers that is
//	worker_wait_PART       share of the time for which workers were ready without a CPU
//	throttled_PART         share of periods in which the CPU limit held the proxy back
//	involuntary_switches_PART  times a second that a CPU was taken from the proxy's threads
//	money_cores, money_cpu, money_memory, money_month (and _overhead)
//	                       what the proxies of the section money's mesh need and cost
//
//	bill_cpu, bill_latency_p50... what a part of a bill adds to the base
//	saved_cpu...           what all together without a part save
//	hop_TERM_MEASURE       a part of what a request's way through sidecars costs
//	bill_sum, bill_interaction  CPU of the parts' sum, and of all together beyond it
//
//	profile_cost_PART      how much more CPU a proxy uses while it is profiled
//	profile_named_PART     share of its samples in user space whose function is known
//
// Beside them stand findings that name themselves by what a run showed:
// profile_share_PART_CENTRE (a cost centre's share of a proxy's CPU time),
// limit_PART (what holds the proxy back, in words, with its evidence), fits,
// highest_FACTOR of searches, and what two levels differ by as a share:
// MEASURE_change_since_VERSION of Envoy, where MEASURE is cpu_PART, latency_p50,
// latency_p99 or memory_PART of a proxy, and MEASURE_saved_by_FILTERS, where it is
// cpu_server_proxy, latency_p50 or memory_server_proxy.
func dataFindings() []string {
	out := slices.Clone(savedNames)
	for _, p := range []string{"p50", "p90", "p99", "p999"} {
		out = append(out, "latency_"+p, "latency_"+p+"_overhead")
	}
	for _, part := range []string{record.PartClientProxy, record.PartServerProxy, record.PartGenerator,
		record.PartWorker, record.PartControl, record.PartMachine} {
		out = append(out, "cpu_"+part+"_per_request")
	}
	out = append(out, "cpu_machine_per_request_overhead")
	for _, part := range []string{record.PartClientProxy, record.PartServerProxy, record.PartGenerator,
		record.PartWorker, record.PartControl} {
		out = append(out, "memory_"+part)
	}
	for _, name := range []string{FindingBusiestWorker, FindingImbalance, FindingWorkerWait, FindingThrottled, FindingInvoluntary} {
		out = append(out, name+"_"+record.PartClientProxy, name+"_"+record.PartServerProxy)
	}
	for _, name := range []string{FindingProfileCost, FindingProfileNamed} {
		out = append(out, name+"_"+record.PartClientProxy, name+"_"+record.PartServerProxy)
	}
	for _, name := range []string{FindingMoneyCores, FindingMoneyCPU, FindingMoneyMemory, FindingMoneyMonth} {
		out = append(out, name, name+"_overhead")
	}
	for _, what := range BillMeasures() {
		out = append(out, FindingBill+"_"+what, FindingSaved+"_"+what)
	}
	return append(append(out, FindingBillSum, FindingInteraction), hopNames()...)
}

// FindingUnit returns the unit of a finding by its name, "" if there is no
// such finding.
func FindingUnit(name string) string {
	for _, table := range [][]controlFinding{controlFindings, scenarioFindings} {
		for _, f := range table {
			if f.name == name {
				return f.unit
			}
		}
	}
	switch {
	case !has(dataFindings(), name):
		return ""
	case billUnit(name) != "":
		return billUnit(name)
	case hopFindings()[name] != "":
		return hopFindings()[name]
	case strings.TrimSuffix(name, "_overhead") == FindingMoneyCores:
		return UnitCores
	case strings.HasPrefix(name, moneyFindings):
		return unitMoney
	case has(savedNames, name):
		return UnitRatio
	case strings.HasPrefix(name, "latency_"):
		return UnitMicroseconds
	case strings.HasPrefix(name, "cpu_"):
		return UnitPerRequest
	case strings.HasPrefix(name, FindingInvoluntary):
		return UnitPerSecond
	case strings.HasPrefix(name, "memory_"):
		return UnitBytes
	}
	return UnitRatio
}

// scaled is a unit that a figure may be in, and what one of it is in the
// finding's own.
type scaled struct {
	name string
	one  float64
}

var (
	scaledTimes = []scaled{{"us", 1}, {"ms", 1000}, {"s", 1_000_000}}
	scaledBytes = []scaled{{"bytes", 1}, {"kB", 1000}, {"MB", 1_000_000}, {"KiB", 1 << 10}, {"MiB", 1 << 20}}
)

// scales are the units that a figure may be in, by the finding's own.
var scales = map[string][]scaled{
	UnitMicroseconds:   scaledTimes,
	UnitPerRequest:     each(scaledTimes[:2], "/request"),
	UnitPerChange:      each(scaledTimes, "/change"),
	UnitBytes:          scaledBytes,
	UnitBytesPerChange: each(scaledBytes, "/change"),
}

func each(units []scaled, suffix string) []scaled {
	out := make([]scaled, len(units))
	for i, u := range units {
		out[i] = scaled{u.name + suffix, u.one}
	}
	return out
}

// scaleTo returns what one of a unit is in a finding's own.
func scaleTo(own, unit string) (float64, *complaint) {
	possible := scales[own]
	if possible == nil {
		possible = []scaled{{own, 1}}
	}
	var names []string
	for _, u := range possible {
		if u.name == unit {
			return u.one, nil
		}
		names = append(names, u.name)
	}
	return 0, complain("possible: "+strings.Join(names, ", "), "%q is no unit", clip(unit, 40))
}

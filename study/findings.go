package study

import (
	"strings"

	"github.com/meshmark/meshmark/record"
)

// Units of findings.
const (
	UnitMicroseconds = "us"
	UnitPerRequest   = "us/request"
	UnitBytes        = "bytes"
)

// FindingNames lists the findings that a stop rule, a published figure or an
// assertion can name:
//
//	latency_pNN            a percentile of a cell, by intended time
//	latency_pNN_overhead   its difference to the baseline
//	cpu_PART_per_request   CPU time of a part
//	cpu_machine_per_request_overhead
//	memory_PART            proportional set size of a part
func FindingNames() []string {
	var out []string
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
	return out
}

// FindingUnit returns the unit of a finding by its name, "" if there is no
// such finding.
func FindingUnit(name string) string {
	switch {
	case !has(FindingNames(), name):
		return ""
	case strings.HasPrefix(name, "latency_"):
		return UnitMicroseconds
	case strings.HasPrefix(name, "cpu_"):
		return UnitPerRequest
	}
	return UnitBytes
}

// units that a published figure may be in, by the finding's own unit, and
// the factor that turns one into the other.
var units = map[string]map[string]float64{
	UnitMicroseconds: {"us": 1, "ms": 1000, "s": 1_000_000},
	UnitPerRequest:   {"us/request": 1, "ms/request": 1000},
	UnitBytes:        {"bytes": 1, "kB": 1000, "MB": 1_000_000, "KiB": 1 << 10, "MiB": 1 << 20},
}

func unitNames(of string) []string {
	all := map[string][]string{
		UnitMicroseconds: {"us", "ms", "s"},
		UnitPerRequest:   {"us/request", "ms/request"},
		UnitBytes:        {"bytes", "kB", "MB", "KiB", "MiB"},
	}
	return all[of]
}

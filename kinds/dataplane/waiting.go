package dataplane

import (
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// SectionWaiting is the section about the latency added by waiting for a CPU.
const SectionWaiting = "waiting"

// Findings about waiting.
const (
	FindingMean    = "latency_mean"
	FindingWaiting = "latency_waiting"
	FindingService = "latency_service"
)

// waitingFindings divide the mean latency.
func waitingFindings() []finding.Def {
	var out []finding.Def
	for _, one := range []finding.Def{
		{Name: FindingMean, Doc: "Mean latency of answered requests, from intended send time.", Phrase: "the mean latency"},
		{Name: FindingWaiting, Doc: "Run-queue wait per request of the threads that serve requests, in proxies and workload: for an idle CPU to wake up, or a busy one to become free.", Phrase: "the wait for a CPU"},
		{Name: FindingService, Doc: "Mean latency less that wait.", Phrase: "the mean latency without waiting for a CPU"},
	} {
		one.Unit, one.Probe, one.Compared, one.Differences = finding.UnitMicroseconds, study.MeasureLatency, true, SectionWaiting
		one.Context = one.Name == FindingWaiting // a busy machine makes requests wait, whatever keeps it busy
		out = append(out, one)
	}
	return out
}

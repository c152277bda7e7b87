package study

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/study/protocol"
)

func dataSpec() Spec {
	return Spec{
		About:    "the data plane",
		Example:  FactorSidecars + ": " + SidecarsNone,
		Factors:  dataFactors,
		Measures: slices.Concat([]string{MeasureLatency, MeasureCPU, MeasureMemory, MeasureConnections, MeasureEnvoy, MeasurePressure, MeasureThreads, MeasureProfile}, probe.Names()),
		Unasked:  append(probe.Names(), MeasureProfile),
		Findings: dataFindings,
		Uses:     []string{"load", "warmup", "sizing"},
		Sample:   "{hops: {}, money: {}, sizing: {}, profile: {}}",
		Check: func(d *Decoder, s *Study) {
			d.checkWindow(s)
			d.checkLoad(s)
			d.checkFilters(s)
			d.checkServiceTime(&s.Workload.ServiceTime)
			d.checkPlanted(s)
			d.checkInterception(s)
			d.checkCarriers(s)
			d.checkSizedWays(s)
		},
		CheckPlan: func(d *Decoder, p *Plan) {
			d.checkFilterCells(p)
			d.checkBillCells(p)
			d.checkHopCells(p)
			d.checkGatewayCells(p)
		},
		Files: dataFiles,
		Trial: func(s *Study, _ record.Cell) (shortest, longest time.Duration) {
			return s.Warmup.Min + s.Window + SwitchTime, s.Warmup.Max + s.Window + SwitchTime
		},
	}
}

// dataFiles puts in recorded service times and EnvoyFilters.
func dataFiles(s *Study, read func(name string) ([]byte, error)) error {
	if t := &s.Workload.ServiceTime; t.File != "" {
		times, err := ReadLines(read, "workload.service_time.file", t.File, maxValues, "recorded times", "a duration a line, as 1.5ms", parseTime)
		if err != nil {
			return err
		}
		t.File, t.Values = "", times
	}
	s.EnvoyFilters = slices.Clone(s.EnvoyFilters)
	for i := range s.EnvoyFilters {
		f := &s.EnvoyFilters[i]
		if f.File == "" {
			continue
		}
		data, err := read(f.File)
		if err == nil {
			err = f.parse(data)
		}
		if err != nil {
			return fmt.Errorf("envoy_filters.%s: %w", f.Name, err)
		}
		f.File = ""
	}
	return nil
}

func (d *Decoder) checkWindow(s *Study) {
	if s.Window%s.Interval != 0 || s.Window < s.Interval {
		n := max(1, math.Round(float64(s.Window)/float64(s.Interval)))
		d.Fail(d.Pos("window"), CodeConflict, "for example "+FormatDuration(time.Duration(n)*s.Interval),
			"window %s is no whole number of intervals of %s", FormatDuration(s.Window), FormatDuration(s.Interval))
	}
}

func (d *Decoder) checkLoad(s *Study) {
	if name := s.speaks(func(p protocol.Protocol) bool { return p.Echo }); name != "" && has(s.Levels(FactorPayload), "0B") {
		d.Fail(d.Pos("factors", FactorPayload), CodeConflict, "give payload at least 1B, or leave "+name+" out", "protocol %s echoes the payload and cannot do so with payload 0B", name)
	}
}

func (d *Decoder) checkServiceTime(t *ServiceTime) {
	at := func(f string) Pos { return d.Pos("workload", "service_time", f) }
	recorded := t.Distribution == DistributionRecorded
	switch {
	case recorded && (t.File == "") == (len(t.Values) == 0):
		d.Fail(at("distribution"), CodeConflict, "", "distribution recorded needs either values or a file")
	case recorded && t.Mean != 0:
		d.Fail(at("mean"), CodeConflict, "leave it out", "recorded times have their own mean")
	case !recorded && (t.File != "" || len(t.Values) > 0):
		d.Fail(at("distribution"), CodeConflict, "use distribution: recorded, or leave values and file out", "distribution %s takes no recorded times", t.Distribution)
	case t.Distribution != DistributionLognormal && t.Sigma != 0:
		d.Fail(at("sigma"), CodeConflict, "leave it out", "sigma is for distribution lognormal")
	case t.Distribution == DistributionLognormal && t.Sigma == 0:
		d.Fail(at("distribution"), CodeConflict, "as sigma: 0.5", "distribution lognormal needs a sigma above 0")
	case (t.Distribution == DistributionLognormal || t.Distribution == DistributionExponential) && t.Mean == 0:
		d.Fail(at("distribution"), CodeConflict, "as mean: 1ms", "distribution %s needs a mean above 0", t.Distribution)
	}
}

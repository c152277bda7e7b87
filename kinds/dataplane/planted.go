package dataplane

import (
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// FactorPlanted is an effect of known size, which tests a study itself.
const FactorPlanted = "planted"

// Levels of [FactorPlanted] that are words. The others are times.
const (
	PlantedNone    = "none"
	PlantedNothing = "nothing" // separate pods with the same configuration
	PlantedBypass  = "bypass"  // a defect: no route leads to the egress gateway
)

// mostPlanted is the maximum planted time.
const mostPlanted = time.Second

var plantedFactor = study.Factor{
	Name: FactorPlanted, Scope: study.ScopePods, Default: PlantedNone,
	Doc:      "A known effect to test a study with: the workload delays each request by this much, and the service time must be fixed; nothing only gives the cell its own pods; with bypass, requests do not reach the egress gateway, and no trial is valid.",
	Pattern:  `^(none|nothing|bypass|[0-9]+(us|ms))$`,
	Examples: []string{"none", "nothing", "200us"},
	Parse:    plantedLevel,
}.Labelled(study.Says("planted %s", PlantedNone, "nothing planted")).Phrased(study.Says("with %s planted", PlantedNothing, "in pods of its own", PlantedBypass, "with a bypass planted")).
	Shortened(study.Says("planted-%s")).
	Becoming(func(cell record.Cell) string {
		if cell[FactorPlanted] == PlantedBypass && !study.Leaving(cell) {
			return PlantedNone
		}
		return cell[FactorPlanted]
	})

func plantedLevel(s string) (string, *study.Error) {
	if s == PlantedNone || s == PlantedNothing || s == PlantedBypass {
		return s, nil
	}
	d, c := study.ParseDuration(s)
	switch {
	case c != nil:
		return "", c
	case d <= 0 || d > mostPlanted || d%time.Microsecond != 0:
		return "", study.Complain(study.CodeInvalid, "as 200us", "%s: use whole microseconds, at most %v, or nothing", s, mostPlanted)
	}
	return strings.Replace(d.String(), "µs", "us", 1), nil
}

// checkPlanted finds a planted time without a fixed time to add it to, and a bypass of no gateway.
func checkPlanted(d *study.Decoder, s *study.Study) {
	if slices.Equal(s.Levels(FactorPlanted), []string{PlantedNone}) {
		return
	}
	if t := Of(s).Workload.ServiceTime; t.Distribution != study.DistributionFixed {
		d.Fail(d.Pos("workload", "service_time", "distribution"), study.CodeConflict, "use distribution: fixed, or leave "+FactorPlanted+" out",
			"a planted time is added to a fixed service time, and this one is %s", t.Distribution)
	}
	if slices.Contains(s.Levels(FactorPlanted), PlantedBypass) && !slices.Contains(s.Levels(study.FactorDestination), study.DestinationEgress) {
		d.Fail(s.Place(FactorPlanted), study.CodeConflict, "set "+study.FactorDestination+": "+study.DestinationEgress, "%s: %s needs an egress gateway to bypass", FactorPlanted, PlantedBypass)
	}
}

// Planted returns how much longer the workload of a variant holds each request.
func (v Variant) Planted() time.Duration {
	d, _ := study.ParseDuration(v.planted) // 0 for words
	return d
}

// Bypass reports whether requests to a variant's server are meant to bypass the egress gateway.
func (v Variant) Bypass() bool { return v.planted == PlantedBypass }

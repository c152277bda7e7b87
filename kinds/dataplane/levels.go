package dataplane

import (
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study"
)

// Levels holds the levels of a cell as typed values, for code that acts on them.
type Levels struct {
	Sidecars     string
	Connections  int
	Rate         rate.Rate
	Arrival      string // NotApplicable at rate max
	Protocol     string
	PayloadBytes int64
	KeepAlive    bool
	Generators   int
}

// LevelsOf reads the generator's part of a cell. It fails only for a cell that did not come from a
// plan.
func LevelsOf(cell record.Cell) (Levels, error) {
	r := study.ReadCell(factors, cell)
	return Levels{Sidecars: r.Text(study.FactorSidecars), Connections: r.Int(study.FactorConnections), Rate: r.Rate(study.FactorRate), Arrival: r.Text(study.FactorArrival),
		Protocol: r.Text(study.FactorProtocol), PayloadBytes: int64(r.Number(study.FactorPayload)), KeepAlive: r.Bool(study.FactorKeepAlive), Generators: r.Int(study.FactorGenerators)}, r.Err()
}

// Scattered reports whether a cell's several generators may run both on and off its worker's node
// while node components carry their requests.
func Scattered(cell record.Cell) bool {
	return GeneratorsIn(cell) > 1 && placeOf(cell) == "" && len(study.WayOf(cell).At(record.PlaceNode)) > 0
}

func envoyLevel(s string) (string, *study.Error) {
	if s == study.EnvoyDefault {
		return s, nil
	}
	if !study.VersionPattern.MatchString(s) {
		return "", study.Complain(study.CodeInvalid, "use a full version such as 1.39.0, or default", "%q is not a version of Envoy", s)
	}
	return strings.TrimPrefix(s, "v"), nil
}

package study

import (
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
)

// Levels is a cell with its levels as values, for code that acts on them.
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

// LevelsOf reads the generator's part of a cell. It fails only for a cell
// that did not come from a plan.
func LevelsOf(cell record.Cell) (Levels, error) {
	r := ReadCell(dataFactors, cell)
	return Levels{Sidecars: r.Text(FactorSidecars), Connections: r.Int(FactorConnections), Rate: r.Rate(FactorRate), Arrival: r.Text(FactorArrival),
		Protocol: r.Text(FactorProtocol), PayloadBytes: int64(r.Number(FactorPayload)), KeepAlive: r.Bool(FactorKeepAlive), Generators: r.Int(FactorGenerators)}, r.Err()
}

// Scattered reports whether a cell's several generators may be on both sides of its
// worker's node, where what is on nodes carries their requests.
func Scattered(cell record.Cell) bool {
	return GeneratorsIn(cell) > 1 && placeOf(cell) == "" && len(WayOf(cell).At(record.PlaceNode)) > 0
}

func envoyLevel(s string) (string, *Error) {
	if s == EnvoyDefault {
		return s, nil
	}
	if !VersionPattern.MatchString(s) {
		return "", Complain(CodeInvalid, "a full version as 1.39.0, or default", "%q is no version of Envoy", s)
	}
	return strings.TrimPrefix(s, "v"), nil
}

package findings

import (
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// enough puts none in place of percentiles of n requests with too few of them
// beyond ([stat.MinBeyond]). Those among lost requests are known to be infinite if so many were.
func enough(l record.Latency, n, lost int64, none float64) record.Latency {
	for i, to := range []*float64{&l.P50, &l.P90, &l.P99, &l.P999} {
		if n < stat.Takes(analysis.Quantiles[i].Q) && (!math.IsInf(*to, 1) || lost < stat.MinBeyond) {
			*to = none
		}
	}
	return l
}

// refusing has expressions that come to a number that is none, as a percentile of
// too few requests, fail with why.
type refusing struct{ types.Adapter }

func (r refusing) NativeToValue(value any) ref.Val {
	if v, ok := value.(float64); ok && math.IsNaN(v) {
		return types.NewErr("a percentile of too few requests: p50 needs %d, p90 %d, p99 %d", stat.Takes(0.5), stat.Takes(0.9), stat.Takes(0.99))
	}
	return r.Adapter.NativeToValue(value)
}

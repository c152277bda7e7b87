package findings

import (
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// enough removes percentiles of n requests with too few observations beyond them
// ([stat.MinBeyond]). Percentiles among lost requests are kept as infinite if enough requests were
// lost.
func enough(l record.Latency, n, lost int64) record.Latency {
	for _, q := range record.Percentiles() {
		if n < stat.Takes(float64(q)) && (!math.IsInf(l.At(q), 1) || lost < stat.MinBeyond) {
			l.Unset(q)
		}
	}
	return l
}

// refusing makes expressions fail with the reason if they evaluate to NaN, such as a percentile of
// too few requests.
type refusing struct{ types.Adapter }

func (r refusing) NativeToValue(value any) ref.Val {
	v, ok := value.(float64)
	if !ok || !math.IsNaN(v) {
		return r.Adapter.NativeToValue(value)
	}
	return types.NewErr("a percentile of too few requests: %s", resilience.PercentilesNeed(func(n int64) string { return words.Grouped(float64(n)) }))
}

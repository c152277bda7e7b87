package stat_test

import (
	"fmt"

	"github.com/meshtrial/meshtrial/stat"
)

// Four blocks measured the p99 latency of a baseline and of a mesh, in milliseconds,
// and the baseline twice: is the difference real?
func Example() {
	pairs := []stat.Pair{{Base: 2.00, Test: 2.61}, {Base: 2.11, Test: 2.70}, {Base: 1.95, Test: 2.52}, {Base: 2.04, Test: 2.66}}
	twice := []stat.Pair{{Base: 1.98, Test: 2.02}, {Base: 2.13, Test: 2.09}, {Base: 1.94, Test: 1.96}, {Base: 2.05, Test: 2.03}}

	overhead := stat.Difference(pairs, stat.Options{})
	floor := stat.NoiseFloor(twice, stat.Options{})
	call, why := overhead.Call(floor, 0.1) // 0.1 ms more would not matter

	fmt.Printf("+%.2f ms, 95%% interval %.2f to %.2f\n", overhead.Value, overhead.Low, overhead.High)
	fmt.Printf("%s: %s\n", call, why)
	// Output:
	// +0.60 ms, 95% interval 0.56 to 0.63
	// real: the interval excludes zero and the value exceeds the noise floor of 0.038
}

// A release is compared with the previous one against a margin of 5 percent. Four
// noisy blocks cannot tell, and Judge says so instead of guessing.
func ExampleJudge() {
	change := stat.RelativeDifference([]stat.Pair{{Base: 100, Test: 103}, {Base: 98, Test: 97}, {Base: 104, Test: 112}, {Base: 99, Test: 101}}, stat.Options{})
	verdict, why := stat.Judge(change, 0.05)
	fmt.Printf("%s: %s\n", verdict, why)
	// Output:
	// inconclusive: the interval is wider than the margin: more blocks are needed
}

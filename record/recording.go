package record

import (
	"fmt"
	"time"
)

// Sizes of recordings with copies of stacks, in bytes.
const (
	StackCopy    = 16 << 10 // of a sample
	MaxRecording = 1 << 30  // of perf's file
)

// CopiesOfStacks is how many bytes perf writes of one busy core when it copies
// its stack hz times per second.
func CopiesOfStacks(hz int, length time.Duration) float64 {
	return float64(hz) * length.Seconds() * StackCopy
}

// TooManyCopies says why such a recording is refused.
func TooManyCopies(hz int, length time.Duration) string {
	return fmt.Sprintf("call graph dwarf copies %d KiB per sample: %d samples per second for %v are %.1f GiB "+
		"for each busy core, it must be at most %d GiB",
		StackCopy>>10, hz, length, CopiesOfStacks(hz, length)/(1<<30), MaxRecording>>30)
}

package record

import (
	"fmt"
	"time"
)

// Sizes of recordings that copy stacks, in bytes.
const (
	StackCopy    = 16 << 10 // per sample
	MaxRecording = 1 << 30  // of perf's file
)

// CopiesOfStacks returns the number of bytes that perf writes for one busy core
// when it copies the stack hz times per second.
func CopiesOfStacks(hz int, length time.Duration) float64 {
	return float64(hz) * length.Seconds() * StackCopy
}

// TooManyCopies explains why such a recording is rejected.
func TooManyCopies(hz int, length time.Duration) string {
	return fmt.Sprintf("call graph dwarf copies %d KiB per sample: %d samples per second for %v are %.1f GiB "+
		"for each busy core, it must be at most %d GiB",
		StackCopy>>10, hz, length, CopiesOfStacks(hz, length)/(1<<30), MaxRecording>>30)
}

package profile

import (
	"bytes"
	"encoding/binary"
)

// maxLegacyPprof bounds a file in gperftools' form, in bytes: an address takes
// four of them and some two hundred of memory.
const maxLegacyPprof = 16 << 20

// isLegacyPprof reports whether a file begins as those do that gperftools and
// older Go programs write: CPU profiles in binary words (Envoy's own CPU profiler
// among them), and heap and contention profiles as text.
func isLegacyPprof(head []byte) bool {
	for _, start := range []string{"heap profile:", "--- contention", "--- mutex:"} {
		if bytes.HasPrefix(head, []byte(start)) {
			return true
		}
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, size := range []int{4, 8} {
			if legacyHeader(head, size, order) {
				return true
			}
		}
	}
	return false
}

// legacyHeader looks for the header of a CPU profile in words of a size: 0, 3
// (the words that follow these two), 0 (1: of Java), the period in microseconds, 0.
func legacyHeader(head []byte, size int, order binary.ByteOrder) bool {
	if len(head) < 5*size {
		return false
	}
	var words [5]uint64
	for i := range words {
		if word := head[i*size:]; size == 4 {
			words[i] = uint64(order.Uint32(word))
		} else {
			words[i] = order.Uint64(word)
		}
	}
	return words[0] == 0 && words[1] == 3 && words[2] <= 1 && words[3] > 0 && words[4] == 0
}

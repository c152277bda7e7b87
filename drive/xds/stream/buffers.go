package stream

import (
	"math/bits"
	"sync"
)

// Buffers for messages in several frames, by size class (a power of two). Their
// number grows with the messages in transit, not with the streams.
var pools [32]sync.Pool

const minClass = 12 // 4 KiB

func class(n int) int { return max(minClass, bits.Len(uint(max(n, 1)-1))) }

// getBuffer returns an empty buffer with capacity for n bytes.
func getBuffer(n int) []byte {
	k := class(n)
	if k >= len(pools) {
		return make([]byte, 0, n)
	}
	if b, ok := pools[k].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<k)
}

// putBuffer returns a buffer to its pool.
func putBuffer(b []byte) {
	k := class(cap(b))
	if b == nil || k >= len(pools) || cap(b) != 1<<k {
		return
	}
	pools[k].Put(&b)
}

package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/google/pprof/profile"
)

// maxPprof bounds a pprof file when it is unpacked, in bytes.
const maxPprof = 256 << 20

// maxLegacyPprof bounds a file in gperftools' form, in bytes: an address takes
// four of them and some two hundred of memory.
const maxLegacyPprof = 16 << 20

// parsePprof guards the library's parser, which was not made for garbage.
func parsePprof(r io.Reader) (p *profile.Profile, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			p, err = nil, fmt.Errorf("pprof: %v: %w", broken, ErrFormat)
		}
	}()
	data, err := io.ReadAll(io.LimitReader(r, maxPprof+1))
	if err != nil {
		return nil, fmt.Errorf("pprof: %w", err)
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		packed, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(packed, maxPprof+1))
		}
		if err != nil {
			return nil, fmt.Errorf("pprof: unpack: %w (%w)", err, ErrFormat)
		}
	}
	if len(data) > maxPprof {
		return nil, fmt.Errorf("pprof: more than %d MiB: %w", maxPprof>>20, ErrFormat)
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("pprof: the file is empty: %w", ErrFormat)
	}
	if isLegacyPprof(data) {
		if len(data) > maxLegacyPprof {
			return nil, fmt.Errorf("pprof: more than %d MiB in gperftools' form: %w", maxLegacyPprof>>20, ErrFormat)
		}
		p, err = profile.ParseData(data)
	} else {
		if err := boundPprof(data); err != nil {
			return nil, err
		}
		// Not ParseData: that unpacks what was packed twice, without a bound.
		if p, err = profile.ParseUncompressed(data); err == nil {
			err = p.CheckValid()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pprof: %w (%w)", err, ErrFormat)
	}
	return p, nil
}

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

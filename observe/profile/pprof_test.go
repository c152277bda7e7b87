package profile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// legacyMaps follows the samples of a profile in gperftools format.
const legacyMaps = "00400000-00500000 r-xp 00001000 fd:01 12 /usr/local/bin/envoy\n" +
	"00500000-00600000 rw-p 00101000 fd:01 12 /usr/local/bin/envoy\n" +
	"7f0000000-7f0010000 r-xp 00000000 fd:01 13 /usr/lib/libc.so.6\n"

// legacyCPU returns a CPU profile in gperftools format, with the given word size.
// Each stack starts with its number of samples, followed by addresses, innermost
// first.
func legacyCPU(size int, order binary.AppendByteOrder, periodUS uint64, stacks ...[]uint64) []byte {
	var out []byte
	words := func(all ...uint64) {
		for _, w := range all {
			if size == 4 {
				out = order.AppendUint32(out, uint32(w))
			} else {
				out = order.AppendUint64(out, w)
			}
		}
	}
	words(0, 3, 0, periodUS, 0)
	for _, s := range stacks {
		words(s[0], uint64(len(s)-1))
		words(s[1:]...)
	}
	words(0, 1, 0)
	return append(out, legacyMaps...)
}

// gperftools, and thus Envoy's own CPU profiler, writes words of its machine.
func TestLegacyCPU(t *testing.T) {
	stacks := [][]uint64{{5, 0x401010, 0x402021, 0x403031}, {2, 0x401010, 0x404041}, {1, 0x409090, 0x405051, 0x403031}}
	for name, data := range map[string][]byte{
		"64 bits":                  legacyCPU(8, binary.LittleEndian, 10_000, stacks...),
		"64 bits, the other order": legacyCPU(8, binary.BigEndian, 10_000, stacks...),
		"32 bits":                  legacyCPU(4, binary.LittleEndian, 10_000, stacks...),
		"32 bits, the other order": legacyCPU(4, binary.BigEndian, 10_000, stacks...),
		"packed":                   packed(t, legacyCPU(8, binary.LittleEndian, 10_000, stacks...)),
	} {
		p, err := Read(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p.Kind != KindCPU || p.Unit != UnitNanoseconds || p.Period != 10_000_000 || p.Taken() != 8 || len(p.Notes) > 0 {
			t.Errorf("%s: %s, %s, period %d, %d taken, notes %q", name, p.Kind, p.Unit, p.Period, p.Taken(), p.Notes)
		}
		var got []string
		for s := range p.Samples() {
			line := fmt.Sprint(s.Weight/p.Period, ":")
			for _, f := range p.Frames(s.Stack) { // file offsets; those of callers are at the call
				line += fmt.Sprintf(" %s+%x", f.Module, f.Offset)
			}
			got = append(got, strings.ReplaceAll(line, "/usr/local/bin/", ""))
		}
		want := "5: envoy+4030 envoy+3020 envoy+2010|2: envoy+5040 envoy+2010|1: envoy+4030 envoy+6050 envoy+a090"
		if strings.Join(got, "|") != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestLegacyHeap(t *testing.T) {
	p, err := Read(strings.NewReader("heap profile:    3:  3072 [    9:     9216] @ heapprofile\n" +
		"     2:     2048 [     4:     4096] @ 0x401011 0x402021\n" +
		"     1:     1024 [     5:     5120] @ 0x7f0001011 0x402021\n\nMAPPED_LIBRARIES:\n" + legacyMaps))
	must.OK(t, err)
	got, want := text(t, p), "[envoy];[envoy] 2048\n[envoy];[libc.so.6] 1024\n"
	if p.Kind != KindHeap || p.Unit != "bytes" || got != want {
		t.Errorf("%s, %s: %q, want %q", p.Kind, p.Unit, got, want)
	}
}

// Files that only start like gperftools format, or are too large, are rejected.
func TestLegacyRefused(t *testing.T) {
	whole := legacyCPU(8, binary.LittleEndian, 10_000, []uint64{5, 0x401010, 0x402021})
	for name, data := range map[string][]byte{
		"cut in a sample":    whole[:60],
		"a stack too long":   legacyCPU(8, binary.LittleEndian, 10_000, []uint64{1 << 40}),
		"no period":          legacyCPU(8, binary.LittleEndian, 0, []uint64{5, 0x401010}),
		"heap without lines": []byte("heap profile: of nothing\n"),
		"too large":          append(whole, make([]byte, maxLegacyPprof)...),
	} {
		if name == "a stack too long" {
			binary.LittleEndian.PutUint64(data[48:], 1<<40)
		}
		if p, err := Read(bytes.NewReader(data)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

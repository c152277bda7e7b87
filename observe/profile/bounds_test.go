package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/streamtest"
)

// packed returns gzipped data.
func packed(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.OK(t, must.Err(w.Write(data)))
	must.OK(t, w.Close())
	return b.Bytes()
}

// allocated returns the number of bytes that f allocates in total.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A small file that would take much memory is rejected.
func TestPprofBounds(t *testing.T) {
	start := "\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x03cpu\x32\x05nanos"
	list := func(field protowire.Number, n int) []byte { // a packed list of n zeros in a sample
		inner := protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), make([]byte, n))
		return protowire.AppendBytes(protowire.AppendTag(nil, fieldSample, protowire.BytesType), inner)
	}
	for name, data := range map[string][]byte{
		"samples":      bytes.Repeat([]byte("\x12\x00"), 1<<23),
		"locations":    bytes.Repeat([]byte("\x22\x00"), 1<<23),
		"strings":      bytes.Repeat([]byte("\x32\x00"), 1<<23),
		"labels":       bytes.Repeat([]byte("\x12\x08\x1a\x00\x1a\x00\x1a\x00\x1a\x00"), 1<<22),
		"lines":        bytes.Repeat([]byte("\x22\x08\x22\x00\x22\x00\x22\x00\x22\x00"), 1<<22),
		"values":       bytes.Repeat(list(2, 1<<20), 130),
		"packed twice": packed(t, bytes.Repeat([]byte{0}, 1<<26)),
	} {
		if name != "packed twice" {
			data = append([]byte(start), data...)
		}
		small := packed(t, data)
		var err error
		// Decompression itself allocates several times the size.
		if took := allocated(func() { _, err = ReadPprof(bytes.NewReader(small)) }); took > 8*uint64(len(data))+32<<20 {
			t.Errorf("%s: %d MiB were taken for %d KiB", name, took>>20, len(small)>>10)
		}
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadPprof(strings.NewReader(start)); err != nil {
		t.Errorf("an empty profile: %v", err)
	}
}

// Sums of large weights do not overflow.
func TestSums(t *testing.T) {
	p := New(KindOther, UnitNanoseconds)
	deep := p.stack(slices.Repeat([]Frame{{Name: "again", Module: "/bin/x"}}, 100))
	p.offsets[0] = tooFar
	for range 200 {
		p.Add(Sample{Stack: deep, Thread: p.Thread(Thread{}), Weight: 1e17, TimeNS: NoTime})
	}
	if p.Total() <= 0 || p.Total() > maxTotal || p.Len() != 200 {
		t.Errorf("%d in all of %d samples", p.Total(), p.Len())
	}
	if p.Period = 1 << 62; p.Taken() < 0 {
		t.Errorf("%d were taken", p.Taken())
	}
	for id, w := range p.frameWeights() {
		if w < 0 {
			t.Errorf("frame %d weighs %g", id, w)
		}
	}
	if share := p.guesses(nil)["/bin/x"]; share != 1 {
		t.Errorf("%g of all is too far", share)
	}
	costs := Cost([]*Profile{p, p, p, p, p}, nil)
	if costs.Total <= 0 || len(costs.Centres) != 1 || costs.Centres[0].Share < 0.99 || costs.Centres[0].Share > 1 {
		t.Errorf("%+v", costs)
	}
	if d, err := Compare([]*Profile{p, p, p, p, p}, []*Profile{p}); err != nil || d.Before.Total <= 0 {
		t.Errorf("%+v, %v", d.Before, err)
	}
	if total := Merge([]*Profile{p, p, p}).Total(); total <= 0 {
		t.Errorf("merged %d", total)
	}
	p.noteCut()
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "too large") {
		t.Errorf("notes %q", notes)
	}
}

// Memory is bounded even if names differ on each line.
func TestModelBounds(t *testing.T) {
	long := strings.Repeat("f", 1<<16)
	for _, tt := range []struct {
		name  string
		lines int
		line  func(n int) string
		read  func(io.Reader) (*Profile, error)
	}{
		{"functions", maxFrames + 1<<16, func(n int) string { return strconv.FormatInt(int64(n), 36) + " 1\n" }, ReadFolded},
		{"long names", 1 << 13, func(n int) string { return strconv.Itoa(n) + long + " 1\n" }, ReadFolded},
		{"threads", maxThreads + 1000, func(n int) string {
			return "x " + strconv.Itoa(n) + "/" + strconv.Itoa(n) + " 1.0: c:\n\t 12 f (/bin/x)\n\n"
		}, ReadPerfScript},
		{"functions of perf script", maxFrames + 1<<16, func(n int) string {
			return "x 1/1 1.0: c:\n\t 12 " + strconv.FormatInt(int64(n), 36) + " (/bin/x)\n\n"
		}, ReadPerfScript},
	} {
		p, err := tt.read(streamtest.Parts(tt.lines, tt.line))
		must.OK(t, err)
		if p.Total() != int64(tt.lines) {
			t.Errorf("%s: %d of %d", tt.name, p.Total(), tt.lines)
		}
		if len(p.frames) > maxFrames+1 || len(p.threads) > maxThreads+1 || p.textBytes > maxText {
			t.Errorf("%s: %d functions, %d threads, %d bytes of names", tt.name, len(p.frames), len(p.threads), p.textBytes)
		}
		if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "[others]") {
			t.Errorf("%s: notes %q", tt.name, notes)
		}
	}
}

// Samples with the same stack and thread but without a time are merged.
func TestAlike(t *testing.T) {
	p, err := ReadFolded(streamtest.Parts(1<<16, func(int) string { return "a;b 1\n" }))
	if err != nil || p.Len() != 1<<16 || p.Total() != 1<<16 || len(slices.Collect(p.Samples())) != 1 {
		t.Errorf("%v, %v", p, err)
	}
}

// A recording of an hour of five busy CPUs can be read back.
func TestLongRecordingIsWithinPprofsBounds(t *testing.T) {
	p := New(KindCPU, UnitNanoseconds)
	var stack StackID
	for i := range 15 {
		stack, _ = p.Push(stack, p.Frame(Frame{Name: strconv.Itoa(i), Module: "/bin/server"}))
	}
	p.Add(Sample{Stack: stack, Thread: p.Thread(Thread{Name: "worker", PID: 1, TID: 2}), Weight: 10_101_010, TimeNS: 1 << 40})
	var packed bytes.Buffer
	must.OK(t, p.WritePprof(&packed))
	unpacked, err := gzip.NewReader(&packed)
	must.OK(t, err)
	data, err := io.ReadAll(unpacked)
	must.OK(t, err)
	var sample []byte
	for rest := data; sample == nil; {
		field, _, tag := protowire.ConsumeTag(rest)
		value, n := protowire.ConsumeBytes(rest[tag:])
		if n < 0 {
			t.Fatal("no sample")
		}
		if field == fieldSample {
			sample = protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), value)
		}
		rest = rest[tag+n:]
	}
	const samples = 5 * 3600 * 99
	if err := boundPprof(bytes.Repeat(sample, samples)); err != nil {
		t.Error(err)
	}
}

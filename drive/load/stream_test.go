package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// stream writes a result and returns a Stream that reads it.
func stream(t testing.TB, r *Result) *Stream {
	t.Helper()
	var text bytes.Buffer
	must.OK(t, r.WriteStream(&text))
	s, err := NewStream(&text)
	must.OK(t, err)
	return s
}

// reread writes a result and reads it back.
func reread(t testing.TB, r *Result) *Result {
	t.Helper()
	out, err := stream(t, r).All()
	must.OK(t, err)
	return out
}

// Merging results while they are read gives the same as merging complete ones.
func TestMergeStreams(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var results []*Result
		var streams []*Stream
		for range rapid.IntRange(1, 5).Draw(rt, "generators") {
			r := drawResult(rt, rapid.IntRange(0, 4).Draw(rt, "intervals"))
			results, streams = append(results, r), append(streams, stream(t, r))
		}
		scheduled := make([]int64, len(results))
		got, err := MergeStreams(context.Background(), streams, func(i int, iv *Interval) { scheduled[i] += iv.Scheduled })
		must.OK(rt, err)
		want, err := Merge(results...)
		must.OK(rt, err)
		var gotText, wantText bytes.Buffer
		must.OK(rt, errors.Join(got.WriteStream(&gotText), want.WriteStream(&wantText)))
		if !bytes.Equal(gotText.Bytes(), wantText.Bytes()) {
			rt.Fatalf("merged as streams:\n%s\nat once:\n%s", &gotText, &wantText)
		}
		for i, r := range results {
			if w := r.Total(); w.Scheduled != scheduled[i] {
				rt.Fatalf("stream %d handed over %d of %d requests", i, scheduled[i], w.Scheduled)
			}
		}
	})
}

// A stream that is truncated or contains something else fails: it is not mistaken
// for a complete one.
func TestBrokenStreams(t *testing.T) {
	whole := &Result{Spec: DefaultSpec("http://h/"), Replicas: 1, Start: time.Unix(0, 0)}
	for i := range 3 {
		whole.Intervals = append(whole.Intervals, emptyInterval(&Interval{Index: i}))
	}
	var text bytes.Buffer
	must.OK(t, whole.WriteStream(&text))
	lines := strings.SplitAfter(text.String(), "\n")
	read := func(in io.Reader) error {
		s, err := NewStream(in)
		if err != nil {
			return err
		}
		_, err = MergeStreams(t.Context(), []*Stream{stream(t, whole), s}, nil)
		return err
	}
	must.OK(t, read(strings.NewReader(text.String())))
	broken := errors.New("the line broke")
	withBuckets := func(buckets string) string {
		return strings.Replace(lines[1], "[0,0,0,0]", fmt.Sprintf("[%d,0,0,0]", len(buckets)), 1) + buckets
	}
	must.OK(t, read(strings.NewReader(lines[0]+withBuckets("\x01\x01")+lines[2]+lines[3])))
	for name, in := range map[string]io.Reader{
		"nothing":           strings.NewReader(""),
		"half a head":       strings.NewReader(lines[0][:20]),
		"another schema":    strings.NewReader(strings.Replace(text.String(), `"schema":4`, `"schema":9`, 1)),
		"too many":          strings.NewReader(strings.Replace(text.String(), `"interval_count":3`, `"interval_count":2000000`, 1)),
		"fewer than none":   strings.NewReader(strings.Replace(text.String(), `"interval_count":3`, `"interval_count":-1`, 1)),
		"one is missing":    strings.NewReader(lines[0] + lines[1] + lines[3]),
		"the last":          strings.NewReader(lines[0] + lines[1] + lines[2]),
		"half of the last":  strings.NewReader(lines[0] + lines[1] + lines[2] + lines[3][:10]),
		"the line":          io.MultiReader(strings.NewReader(lines[0]+lines[1]), iotest.ErrReader(broken)),
		"half a bucket":     strings.NewReader(lines[0] + withBuckets("\x01") + lines[2] + lines[3]),
		"an empty bucket":   strings.NewReader(lines[0] + withBuckets("\x01\x00") + lines[2] + lines[3]),
		"a value too high":  strings.NewReader(lines[0] + withBuckets("\xff\xff\x7f\x01") + lines[2] + lines[3]),
		"a negative length": strings.NewReader(lines[0] + strings.Replace(lines[1], "[0,0,0,0]", "[-1,0,0,0]", 1) + lines[2] + lines[3]),
		"a huge length":     strings.NewReader(lines[0] + strings.Replace(lines[1], "[0,0,0,0]", "[9999999999,0,0,0]", 1) + lines[2] + lines[3]),
	} {
		if read(in) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// closes records that it was closed.
type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error {
	c.closed = true
	return nil
}

// Streams that cannot be merged are closed too, because nothing else reads them.
func TestRefusedStreamsAreClosed(t *testing.T) {
	ins, streams := make([]*closes, 2), make([]*Stream, 2)
	for i := range ins {
		r := &Result{Spec: DefaultSpec("http://h/"), Replicas: 1, Start: time.Unix(0, 0)}
		r.Spec.IntervalS = float64(i + 1)
		var text bytes.Buffer
		must.OK(t, r.WriteStream(&text))
		ins[i] = &closes{Reader: &text}
		var err error
		streams[i], err = NewStream(ins[i])
		must.OK(t, err)
	}
	if _, err := MergeStreams(t.Context(), streams, nil); err == nil || !ins[0].closed || !ins[1].closed {
		t.Errorf("%v; closed %v, %v", err, ins[0].closed, ins[1].closed)
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b[:min(len(b), 512)])
	c.n.Add(int64(n))
	return n, err
}

// The number of a value's bucket matches the library's: all values of a bucket, and
// no others, have it.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Int64Range(0, histHighest).Draw(t, "value")
		h, least := newPacked(), valueAt(bucketAt(value))
		_ = h.RecordValue(value)
		if h.CountAtValue(least) != 1 || least > value || least > 0 && h.CountAtValue(least-1) != 0 || bucketAt(least) != bucketAt(value) {
			t.Fatalf("%d is in bucket %d, which begins at %d", value, bucketAt(value), least)
		}
	})
}

// A quick stream is not read far ahead of a slow one: its sender has to wait.
func TestSlowStreamHoldsQuickOnes(t *testing.T) {
	const intervals = 400
	r := &Result{Spec: DefaultSpec("http://h/"), Replicas: 1, Start: time.Unix(0, 0)}
	for i := range intervals {
		r.Intervals = append(r.Intervals, emptyInterval(&Interval{Index: i}))
	}
	var text bytes.Buffer
	must.OK(t, r.WriteStream(&text))
	quick := &counted{Reader: bytes.NewReader(text.Bytes())}
	from, to := io.Pipe()
	slow := make(chan *Stream, 1)
	go func() {
		s, err := NewStream(from)
		if err != nil {
			t.Error(err)
		}
		slow <- s
	}()
	head := bytes.IndexByte(text.Bytes(), '\n') + 1
	must.OK(t, must.Err(to.Write(text.Bytes()[:head])))
	fast, err := NewStream(quick)
	must.OK(t, err)
	seen := make(chan int, 2*intervals)
	merged := make(chan error, 1)
	streams := []*Stream{fast, <-slow}
	go func() {
		_, err := MergeStreams(t.Context(), streams, func(i int, _ *Interval) { seen <- i })
		merged <- err
	}()
	rest := text.Bytes()[head:]
	for range intervals / 2 {
		line := bytes.IndexByte(rest, '\n') + 1
		must.OK(t, must.Err(to.Write(rest[:line])))
		rest = rest[line:]
	}
	for range intervals - 10 { // nearly half of either stream; the pipe may hold some
		<-seen
	}
	if n := quick.n.Load(); n > int64(text.Len())*3/4 {
		t.Errorf("%d of %d bytes of the quick one were read, when half of the slow one was there", n, text.Len())
	}
	must.OK(t, must.Err(to.Write(rest)))
	to.Close()
	must.OK(t, <-merged)
}

func FuzzStream(f *testing.F) {
	var text bytes.Buffer
	must.OK(f, drawnOnce(nil).WriteStream(&text))
	f.Add(text.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := NewStream(bytes.NewReader(data))
		if err != nil {
			return
		}
		r, err := MergeStreams(t.Context(), []*Stream{s}, nil) // may return an error, must not panic
		if err == nil && len(r.Intervals) != s.Count {
			t.Fatalf("%d intervals of %d, and no error", len(r.Intervals), s.Count)
		}
	})
}

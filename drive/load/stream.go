package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// resultSchema is the version of a Result's encoding.
const resultSchema = 4

// maxKinds limits the number of kinds of failure in a stream.
const maxKinds = 100

// streamHead is the first line of a streamed result. Each interval follows on its own
// line.
type streamHead struct {
	Schema int `json:"schema"`
	Count  int `json:"interval_count"`
	*Result
}

// streamLine is an interval in a stream. Its histograms have an encoding that reads
// several times faster than HdrHistogram's own compressed one.
type streamLine struct {
	*Interval
	// Buckets are the lengths of the histograms intended, send, lag and wait, which follow
	// the line.
	Buckets [4]int `json:"bucket_bytes"`
}

// mostBuckets limits these lengths: two varints per possible bucket.
const mostBuckets = 1 << 20

func (iv *Interval) histograms() [4]*hdrhistogram.PackedHistogram {
	return [4]*hdrhistogram.PackedHistogram{iv.Intended, iv.Send, iv.Lag, iv.Wait}
}

// halfBuckets is the number of buckets per power of two in a histogram of [histDigits]
// digits, from twice that value on. Buckets below have width one.
const halfBuckets = 1024

// bucketAt returns the number of a value's bucket.
func bucketAt(value int64) int64 {
	width := max(0, bits.Len64(uint64(value))-bits.Len(halfBuckets))
	return int64(width)*halfBuckets + value>>width
}

// valueAt returns the smallest value of a bucket.
func valueAt(bucket int64) int64 {
	width := max(0, bucket/halfBuckets-1)
	return (bucket - width*halfBuckets) << width
}

// appendBuckets appends a histogram's counts as pairs of varints: the distance of a bucket
// from the previous one, and its count.
func appendBuckets(out []byte, h *hdrhistogram.PackedHistogram) []byte {
	last := int64(0)
	h.ForEachBucket(func(value, count int64) bool {
		at := bucketAt(value)
		out = binary.AppendUvarint(out, uint64(at-last))
		out = binary.AppendUvarint(out, uint64(count))
		last = at
		return true
	})
	return out
}

// Buckets are the counts of a histogram of this package, in nanoseconds.
type Buckets []byte

// BucketsOf returns the counts of a histogram of [NewHistogram]'s bounds.
func BucketsOf(h *hdrhistogram.PackedHistogram) Buckets { return appendBuckets(nil, h) }

// Each calls do with each bucket's middle, in ascending order, and its count.
func (b Buckets) Each(do func(ns float64, count int64)) error {
	return b.each(func(bucket, count int64) error {
		do(middle(valueAt(bucket+1)-1), count)
		return nil
	})
}

// fill records buckets in an empty histogram.
func fill(h *hdrhistogram.PackedHistogram, buckets []byte) error {
	return Buckets(buckets).each(func(bucket, count int64) error { return h.RecordValues(valueAt(bucket), count) })
}

// each calls do with each bucket's number and count, until it returns an error.
func (b Buckets) each(do func(bucket, count int64) error) error {
	most, at, buckets := uint64(bucketAt(histHighest)), uint64(0), []byte(b)
	for len(buckets) > 0 {
		step, n := binary.Uvarint(buckets)
		count, m := binary.Uvarint(buckets[max(n, 0):])
		if n <= 0 || m <= 0 || step > most-at || count == 0 || count > math.MaxInt64 {
			return errors.New("it is damaged")
		}
		at += step
		if err := do(int64(at), int64(count)); err != nil {
			return err
		}
		buckets = buckets[n+m:]
	}
	return nil
}

// WriteStream writes the result: a line of JSON without the intervals, then for each
// interval a line and its histograms. It encodes one interval at a time.
func (r *Result) WriteStream(out io.Writer) error {
	buffered := bufio.NewWriter(out)
	lines := json.NewEncoder(buffered)
	if err := lines.Encode(streamHead{resultSchema, len(r.Intervals), r}); err != nil {
		return fmt.Errorf("load result: %w", err)
	}
	var buckets []byte
	for i := range r.Intervals {
		line := streamLine{Interval: &r.Intervals[i]}
		buckets = buckets[:0]
		for k, h := range line.histograms() {
			before := len(buckets)
			buckets = appendBuckets(buckets, h)
			line.Buckets[k] = len(buckets) - before
		}
		err := lines.Encode(line)
		if err == nil {
			_, err = buffered.Write(buckets)
		}
		if err != nil {
			return fmt.Errorf("load result: %w", err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("load result: %w", err)
	}
	return nil
}

// Stream reads a result: its head, then interval by interval.
type Stream struct {
	// Result has no intervals.
	Result
	// Count is the number of intervals.
	Count int
	lines *bufio.Reader
	in    io.Reader
	next  int
	data  []byte // of the last interval's histograms
}

// NewStream reads the head of a result.
func NewStream(in io.Reader) (*Stream, error) {
	s := &Stream{lines: bufio.NewReader(in), in: in}
	head := streamHead{Result: &s.Result}
	err := s.line(&head)
	switch {
	case err != nil:
	case head.Schema != resultSchema:
		err = fmt.Errorf("schema %d, want %d", head.Schema, resultSchema)
	case head.Count < 0 || head.Count > maxIntervals:
		err = fmt.Errorf("%d intervals are more than %d, or less than none", head.Count, maxIntervals)
	case len(s.Reasons) > maxKinds:
		err = fmt.Errorf("reasons of %d kinds of failure", len(s.Reasons))
	}
	if err != nil {
		return nil, fmt.Errorf("load result: %w", err)
	}
	s.Count, s.Reasons = head.Count, mergeReasons(s.Reasons)
	return s, nil
}

// line reads a line of JSON.
func (s *Stream) line(into any) error {
	text, err := s.lines.ReadBytes('\n')
	if err != nil {
		return unexpected(err)
	}
	return json.Unmarshal(text, into)
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close closes the stream's reader.
func (s *Stream) Close() error {
	if c, ok := s.in.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Next returns the next interval, and [io.EOF] after the last.
func (s *Stream) Next() (*Interval, error) {
	if s.next == s.Count {
		return nil, io.EOF
	}
	iv := emptyInterval(&Interval{})
	line := streamLine{Interval: &iv}
	err := s.line(&line)
	switch {
	case err != nil:
	case iv.Index != s.next:
		err = fmt.Errorf("number %d stands in its place", iv.Index)
	case len(iv.Failed) > maxKinds:
		err = fmt.Errorf("%d kinds of failure", len(iv.Failed))
	default:
		err = iv.Gaps.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("load result: interval %d of %d: %w", s.next, s.Count, err)
	}
	for k, h := range iv.histograms() {
		n := line.Buckets[k]
		if n < 0 || n > mostBuckets {
			return nil, fmt.Errorf("load result: histogram %d of interval %d has %d bytes", k, s.next, n)
		}
		s.data = slices.Grow(s.data[:0], n)[:n]
		_, err := io.ReadFull(s.lines, s.data)
		if err = unexpected(err); err == nil {
			err = fill(h, s.data)
		}
		if err != nil {
			return nil, fmt.Errorf("load result: histogram %d of interval %d: %w", k, s.next, err)
		}
	}
	s.next++
	return &iv, nil
}

// All returns the result with the remaining intervals.
func (s *Stream) All() (*Result, error) {
	out := s.Result
	for {
		iv, err := s.Next()
		if errors.Is(err, io.EOF) {
			return &out, nil
		}
		if err != nil {
			return nil, err
		}
		out.Intervals = append(out.Intervals, *iv)
	}
}

// ahead is the number of intervals by which a stream may be ahead of the slowest one.
const ahead = 2

// MergeStreams merges streams like [Merge]. It holds only a few intervals of each at a
// time, and calls each, if not nil, with the stream's number and the interval. It reads
// all streams or fails, and closes them.
func MergeStreams(ctx context.Context, streams []*Stream, each func(stream int, iv *Interval)) (*Result, error) {
	heads := make([]*Result, len(streams))
	most := 0
	for i, s := range streams {
		heads[i] = &s.Result
		most = max(most, s.Count)
	}
	closeAll := func() {
		for _, s := range streams {
			_ = s.Close()
		}
	}
	out, err := Merge(heads...)
	if err != nil {
		closeAll()
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, closeAll) // interrupts reads
	read := make([]chan *Interval, len(streams))
	for i, s := range streams {
		read[i] = make(chan *Interval, ahead)
		group.Go(func() error {
			for range s.Count {
				iv, err := s.Next()
				if err != nil {
					return err
				}
				select {
				case read[i] <- iv:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for j := range most {
			for i, s := range streams {
				if j >= s.Count {
					continue
				}
				select {
				case iv := <-read[i]:
					if j == len(out.Intervals) {
						out.Intervals = append(out.Intervals, emptyInterval(iv))
					}
					out.Intervals[j].merge(iv)
					if each != nil {
						each(i, iv)
					}
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	return out, group.Wait()
}

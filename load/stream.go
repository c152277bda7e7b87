package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

// streamHead is the first line of a result as a stream; a line for each interval
// follows it.
type streamHead struct {
	resultJSON
	Count int `json:"interval_count"`
}

// WriteStream writes the result as lines of JSON: first all but the intervals, then
// each of these. It holds one of them at a time, and goes on as out takes them.
func (r *Result) WriteStream(out io.Writer) error {
	buffered := bufio.NewWriter(out)
	lines := json.NewEncoder(buffered)
	if err := lines.Encode(streamHead{r.head(), len(r.Intervals)}); err != nil {
		return fmt.Errorf("load result: %w", err)
	}
	for i := range r.Intervals {
		j, err := intervalOut(&r.Intervals[i])
		if err == nil {
			err = lines.Encode(j)
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

// Stream is a result that is being read: its head, and its intervals one by one.
type Stream struct {
	// Result has no intervals.
	Result
	// Count is how many there are.
	Count int
	lines *json.Decoder
	in    io.Reader
	next  int
}

// NewStream reads the head of a result.
func NewStream(in io.Reader) (*Stream, error) {
	s := &Stream{lines: json.NewDecoder(in), in: in}
	var head streamHead
	if err := s.lines.Decode(&head); err != nil {
		return nil, fmt.Errorf("load result: %w", err)
	}
	if err := s.setHead(&head.resultJSON); err != nil {
		return nil, err
	}
	if s.Count = head.Count; s.Count < 0 || s.Count > maxIntervals {
		return nil, fmt.Errorf("load result: %d intervals are more than %d, or less than none", s.Count, maxIntervals)
	}
	return s, nil
}

// Close closes what it is read from.
func (s *Stream) Close() error {
	if c, ok := s.in.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Next is the next interval, and [io.EOF] after the last.
func (s *Stream) Next() (*Interval, error) {
	if s.next == s.Count {
		return nil, io.EOF
	}
	var j intervalJSON
	if err := s.lines.Decode(&j); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("load result: interval %d of %d: %w", s.next, s.Count, err)
	}
	iv, err := j.in(s.next)
	if err != nil {
		return nil, err
	}
	s.next++
	return &iv, nil
}

// ahead is how many intervals of each stream are read before those of all others
// have come: a stream that is quicker than the slowest then waits for it.
const ahead = 2

// MergeStreams is [Merge] of results that are still being read. Of each stream it
// holds a few intervals at a time, and hands them to each, if that is not nil, with
// the stream's number. It reads all of them or fails, and closes them.
func MergeStreams(ctx context.Context, streams []*Stream, each func(stream int, iv *Interval)) (*Result, error) {
	heads := make([]*Result, len(streams))
	most := 0
	for i, s := range streams {
		heads[i] = &s.Result
		most = max(most, s.Count)
	}
	out, err := Merge(heads...)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { // one that waits for its next line would not see it
		for _, s := range streams {
			_ = s.Close()
		}
	})
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

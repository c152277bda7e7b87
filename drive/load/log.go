package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Tags of the histograms in an interval log.
const (
	TagIntended = "intended"
	TagSend     = "send"
)

// WriteLog writes intervals from..to-1 as an HdrHistogram interval log (format
// 1.3), readable by other HdrHistogram tools: two lines per interval, tagged
// intended and send, with values in nanoseconds.
func (r *Result) WriteLog(out io.Writer, from, to int) error {
	if from < 0 || to > len(r.Intervals) || from > to {
		return fmt.Errorf("interval log: intervals %d..%d: the run has %d", from, to, len(r.Intervals))
	}
	buffered := bufio.NewWriter(out)
	w := hdrhistogram.NewHistogramLogWriter(buffered)
	start := r.Start.UnixMilli()
	if err := errors.Join(
		w.OutputComment("[Logged by meshtrial; values are nanoseconds]"),
		w.OutputLogFormatVersion(),
		w.OutputStartTime(start),
		w.OutputLegend(),
	); err != nil {
		return fmt.Errorf("interval log: %w", err)
	}
	for i := from; i < to; i++ {
		iv := &r.Intervals[i]
		for _, h := range []struct {
			tag string
			h   *hdrhistogram.PackedHistogram
		}{{TagIntended, iv.Intended}, {TagSend, iv.Send}} {
			c := h.h.Clone() // the tag and times are only for the log
			c.SetTag(h.tag)
			c.SetStartTimeMs(start + iv.StartNS/1e6)
			c.SetEndTimeMs(start + (iv.StartNS+iv.DurationNS)/1e6)
			if err := w.OutputIntervalPackedHistogram(c); err != nil {
				return fmt.Errorf("interval log: interval %d: %w", i, err)
			}
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("interval log: %w", err)
	}
	return nil
}

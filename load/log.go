package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Tags of the histograms in an interval log.
const (
	TagIntended = "intended"
	TagSend     = "send"
)

// LogEntry is one histogram of an interval log.
type LogEntry struct {
	Tag        string
	Start, End time.Time // to the millisecond
	Histogram  *hdrhistogram.Histogram
}

// WriteLog writes intervals from..to-1 as an HdrHistogram interval log
// (format 1.3): two lines for each, tagged intended and send, values in
// nanoseconds. Other tools of HdrHistogram read it.
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
			c := h.h.Clone() // its tag and times are for the log alone
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

// maxLogLine bounds one line of an interval log, in bytes.
const maxLogLine = 1 << 20

// ReadLog reads an interval log. Errors name file (as given) and line.
func ReadLog(file string, in io.Reader) ([]LogEntry, error) {
	var entries []LogEntry
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 0, 64<<10), maxLogLine)
	for line := 1; sc.Scan(); line++ {
		text := sc.Text()
		if text == "" || text[0] == '#' || text[0] == '"' {
			continue
		}
		entry, err := readLogLine(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, line, err)
		}
		entries = append(entries, entry)
		if len(entries) > 2*maxIntervals {
			return nil, fmt.Errorf("%s:%d: more than %d histograms", file, line, 2*maxIntervals)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return entries, nil
}

// readLogLine reads "Tag=T,START,LENGTH,MAX,PAYLOAD". The library's own
// reader skips lines that it does not understand; ours must not, since what
// is skipped would be missing from a result.
func readLogLine(text string) (LogEntry, error) {
	tag := ""
	if rest, ok := strings.CutPrefix(text, "Tag="); ok {
		if tag, text, ok = strings.Cut(rest, ","); !ok {
			return LogEntry{}, fmt.Errorf("a tag, but no histogram after it")
		}
	}
	fields := strings.Split(text, ",")
	if len(fields) != 4 {
		return LogEntry{}, fmt.Errorf("want START,LENGTH,MAX,HISTOGRAM, got %d fields", len(fields))
	}
	var start, length float64
	if _, err := fmt.Sscanf(fields[0]+" "+fields[1], "%g %g", &start, &length); err != nil || !sane(start) || !sane(length) {
		return LogEntry{}, fmt.Errorf("start %.20q and length %.20q: want seconds", fields[0], fields[1])
	}
	h, err := hdrhistogram.Decode([]byte(fields[3]))
	if err != nil {
		return LogEntry{}, fmt.Errorf("histogram: %w", err)
	}
	from := time.UnixMilli(int64(math.Round(start * 1e3)))
	return LogEntry{Tag: tag, Start: from, End: from.Add(time.Duration(math.Round(length*1e3)) * time.Millisecond), Histogram: h}, nil
}

func sane(seconds float64) bool { return seconds >= 0 && seconds < 1e11 }

// MergeLog adds up the histograms of each tag, for instance of the logs of
// several replicas. It fails rather than lose a count.
func MergeLog(entries []LogEntry) (map[string]*hdrhistogram.Histogram, error) {
	out := map[string]*hdrhistogram.Histogram{}
	for _, e := range entries {
		sum := out[e.Tag]
		if sum == nil {
			sum = NewHistogram()
			out[e.Tag] = sum
		}
		if dropped := sum.Merge(e.Histogram); dropped > 0 {
			return nil, fmt.Errorf("interval log: tag %q: %d values do not fit 1 ns to 60 s", e.Tag, dropped)
		}
	}
	return out, nil
}

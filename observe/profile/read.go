package profile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// headBytes is how much of a file [Read] uses to detect its format.
const headBytes = 64 << 10

// maxHeadLine is the length of a first line beyond which a file counts as
// folded stacks.
const maxHeadLine = 2048

// ErrPerfData is returned by [Read] for a perf.data file, which only perf can
// read: see subpackage perf.
var ErrPerfData = errors.New("perf.data is read by perf itself")

// Read reads a profile in any format except perf.data. It detects the format
// from the content.
func Read(r io.Reader) (*Profile, error) {
	in := bufio.NewReaderSize(r, headBytes)
	head, err := in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	read, err := readerFor(head)
	if err != nil {
		return nil, err
	}
	return read(in)
}

// readerFor selects the reader of a file's format by its first bytes.
func readerFor(head []byte) (func(io.Reader) (*Profile, error), error) {
	starts := func(with string) bool { return bytes.HasPrefix(head, []byte(with)) }
	switch {
	case len(bytes.TrimSpace(head)) == 0:
		return nil, fmt.Errorf("the file is empty: %w", ErrFormat)
	case starts("PERFILE2"), starts("PERFFILE"):
		return nil, ErrPerfData
	case bytes.HasPrefix(head, gzipMagic), isLegacyPprof(head), starts("\n") && bytes.IndexByte(head, 0) >= 0:
		return ReadPprof, nil // uncompressed, it starts with field 1, which looks like a newline
	case bytes.IndexByte(head, 0) >= 0, head[0] < '\t':
		return nil, fmt.Errorf("the file is binary, and neither perf.data nor pprof: %w", ErrFormat)
	}
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		if _, ok := parseScriptHeader(line); ok {
			return ReadPerfScript, nil
		}
		if cut := bytes.LastIndexByte(line, ' '); cut > 0 && line[0] != ' ' {
			if _, ok := parseDigits(line[cut+1:]); ok {
				return ReadFolded, nil
			}
		}
		if len(line) > maxHeadLine {
			return ReadFolded, nil // the end of the line may be beyond head
		}
		break
	}
	return nil, fmt.Errorf("neither perf script, perf.data, folded stacks nor pprof: %w", ErrFormat)
}

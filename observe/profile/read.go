package profile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Formats of files.
const (
	FormatPerfScript = "perf script"
	FormatPerfData   = "perf.data"
	FormatFolded     = "folded"
	FormatPprof      = "pprof"
)

// perfMagic begins a perf.data file; perfPipe one that was piped.
const (
	perfMagic  = "PERFILE2"
	perfMagic1 = "PERFFILE"
)

// Detect tells a file's format from its beginning, some kilobytes of it.
func Detect(head []byte) (string, error) {
	switch {
	case len(bytes.TrimSpace(head)) == 0:
		return "", fmt.Errorf("the file is empty: %w", ErrFormat)
	case bytes.HasPrefix(head, []byte(perfMagic)) || bytes.HasPrefix(head, []byte(perfMagic1)):
		return FormatPerfData, nil
	case bytes.HasPrefix(head, gzipMagic), isLegacyPprof(head):
		return FormatPprof, nil
	}
	if bytes.IndexByte(head, 0) >= 0 || head[0] < '\t' {
		if head[0] == 0x0a { // the first field of an unpacked pprof
			return FormatPprof, nil
		}
		return "", fmt.Errorf("the file is binary, and neither perf.data nor pprof: %w", ErrFormat)
	}
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		if _, ok := parseScriptHeader(line); ok {
			return FormatPerfScript, nil
		}
		if cut := bytes.LastIndexByte(line, ' '); cut > 0 {
			if _, ok := parseDigits(line[cut+1:]); ok && !strings.HasPrefix(string(line), " ") {
				return FormatFolded, nil
			}
		}
		if len(line) > maxHeadLine {
			return FormatFolded, nil // its end is not in the head
		}
		break
	}
	return "", fmt.Errorf("neither perf script, perf.data, folded stacks nor pprof: %w", ErrFormat)
}

// maxHeadLine is how long a first line must be to be taken for folded stacks
// by its length alone.
const maxHeadLine = 2048

// headBytes is how much [Read] looks at to tell a format.
const headBytes = 64 << 10

// ErrPerfData is the error of [Read] for a perf.data file, which only perf
// itself reads: see subpackage perf.
var ErrPerfData = errors.New("perf.data is read by perf itself")

// Read reads a profile of any format but perf.data.
func Read(r io.Reader) (*Profile, string, error) {
	in := bufio.NewReaderSize(r, headBytes)
	head, err := in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, "", err
	}
	format, err := Detect(head)
	if err != nil {
		return nil, "", err
	}
	var p *Profile
	switch format {
	case FormatPerfData:
		return nil, format, ErrPerfData
	case FormatPprof:
		p, err = ReadPprof(in)
	case FormatFolded:
		p, err = ReadFolded(in)
	default:
		p, err = ReadPerfScript(in)
	}
	return p, format, err
}

package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/record"
)

// MaxLoggedRequests limits the request log of a run, and so its memory:
// 32 bytes per request, 160 MB in all.
const MaxLoggedRequests = 5_000_000

// Outcomes of a request in the log. A failed request has its kind of failure.
const (
	OutcomeOK         = "ok"
	OutcomeUnfinished = "unfinished" // not sent, or in flight, when the run ended
)

// Request is the outcome of one request. Times are nanoseconds since the run's start, as
// defined in the package comment.
type Request struct {
	N          int64 `json:"n"` // number, also in its id
	IntendedNS int64 `json:"intended_ns"`
	// SentNS is Never for a request that was never sent.
	SentNS int64 `json:"sent_ns"`
	// DoneNS is when it completed or failed; Never if it was in flight when the run
	// ended.
	DoneNS  int64  `json:"done_ns"`
	Outcome string `json:"outcome"` // OutcomeOK, OutcomeUnfinished or a kind of failure
	// Status is the HTTP status or gRPC code of a complete response; 0 without one.
	Status int `json:"status,omitempty"`
}

// RequestsHeader is the first line of a request log.
type RequestsHeader struct {
	Schema      int    `json:"schema"`
	StartUnixNS int64  `json:"start_unix_ns"` // wall clock at offset 0
	Prefix      string `json:"request_id"`    // of the ids; "" for none
	Requests    int64  `json:"requests"`      // lines that follow
	// Lost counts requests beyond MaxLoggedRequests, which have no line.
	Lost int64 `json:"lost"`
}

// requestsSchema is the version of a request log's lines.
const requestsSchema = 1

// ID returns the id that a request of the log carried; "" if the run set none.
func (h *RequestsHeader) ID(r Request) string {
	if h.Prefix == "" {
		return ""
	}
	return RequestID(h.Prefix, r.N)
}

// RequestID returns the id of request n: the prefix, a hyphen and the number. Envoy takes
// an id of 36 characters for a UUID and writes its sampling decision into it, so a number
// that would give that length gets a leading zero.
func RequestID(prefix string, n int64) string {
	return string(appendRequestID(make([]byte, 0, len(prefix)+21), prefix, n))
}

const uuidLength = 36

func appendRequestID(b []byte, prefix string, n int64) []byte {
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], n, 10)
	b = append(b, prefix...)
	b = append(b, '-')
	if len(prefix)+1+len(number) == uuidLength {
		b = append(b, '0')
	}
	return append(b, number...)
}

// maxRequestLine limits a line of a request log, in bytes.
const maxRequestLine = 64 << 10

// ReadRequests reads a request log of [RequestLog.Write] and calls each with the header
// and each request, in order, until the first error. Errors of the log name file (as
// given) and line; missing lines are an error.
func ReadRequests(file string, r io.Reader, each func(*RequestsHeader, Request) error) (RequestsHeader, error) {
	in := bufio.NewReaderSize(r, maxRequestLine)
	var h RequestsHeader
	line := 0
	fail := func(format string, args ...any) (RequestsHeader, error) {
		return h, fmt.Errorf("%s:%d: %w", file, line, fmt.Errorf(format, args...))
	}
	next := func(out any) error {
		line++
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return io.EOF
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("the line is longer than %d bytes", maxRequestLine)
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
		return json.Unmarshal(bytes.TrimSpace(text), out)
	}
	if err := next(&h); err != nil {
		return fail("the header: %w", err)
	}
	if h.Schema != requestsSchema || h.Requests < 0 || h.Lost < 0 {
		return fail("schema %d, %d requests, %d lost: not the header of a request log", h.Schema, h.Requests, h.Lost)
	}
	for i := int64(0); ; i++ {
		req := Request{SentNS: record.Never, DoneNS: record.Never}
		err := next(&req)
		if errors.Is(err, io.EOF) && i == h.Requests {
			return h, nil
		}
		if err != nil {
			return fail("request %d of %d: %w", i+1, h.Requests, err)
		}
		if i == h.Requests {
			return fail("more than the %d requests that the header tells", h.Requests)
		}
		if err := req.check(); err != nil {
			return fail("request %d: %w", req.N, err)
		}
		if err := each(&h, req); err != nil {
			return h, err
		}
	}
}

// negative reports whether a time is impossible.
func negative(at int64) bool { return at < 0 && at != record.Never }

// check rejects impossible requests.
func (r *Request) check() error {
	switch {
	case !slices.Contains(outcomes, r.Outcome):
		return fmt.Errorf("outcome %.40q", r.Outcome)
	case r.N < 0 || r.IntendedNS < 0 || negative(r.SentNS) || negative(r.DoneNS):
		return errors.New("a negative number or time")
	case r.SentNS == record.Never && r.DoneNS != record.Never, (r.DoneNS == record.Never) != (r.Outcome == OutcomeUnfinished):
		return fmt.Errorf("outcome %s does not go with its times", r.Outcome)
	}
	return nil
}

package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of the reasons that are kept for a kind of failure.
const (
	mostReasons  = 3
	reasonBytes  = 200 // of a reason, escapes included
	reasonsTried = 100 // failures examined; later ones are free
)

// reasons keeps the first few distinct reasons of each kind of failure in one shard.
type reasons struct {
	kept  [len(kinds)][]string
	tried [len(kinds)]int
}

// wanted reports whether another reason of a kind would be kept.
func (r *reasons) wanted(kind failure) bool {
	return r.tried[kind] < reasonsTried && len(r.kept[kind]) < mostReasons
}

// add keeps a reason unless there are enough. A peer may have written it.
func (r *reasons) add(kind failure, why error) {
	if r.wanted(kind) && why != nil {
		r.tried[kind]++
		r.kept[kind] = addReason(r.kept[kind], reasonOf(why))
	}
}

// reasonOf returns an error's text without addresses, which differ by connection.
func reasonOf(why error) string {
	if errors.Is(why, context.DeadlineExceeded) || errors.Is(why, os.ErrDeadlineExceeded) {
		return errTimeout.Error()
	}
	var op *net.OpError
	if errors.As(why, &op) && op.Err != nil {
		return op.Op + ": " + op.Err.Error()
	}
	if errors.Is(why, io.EOF) || errors.Is(why, io.ErrUnexpectedEOF) {
		return errClosed.Error()
	}
	return why.Error()
}

// Reasons without an operating system error.
var (
	errClosed  = errors.New("the server closed the connection before the response was complete")
	errTimeout = errors.New("no complete response within the timeout")
)

// statusError is a complete response with a status that is not a success.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("HTTP status %d", int(e)) }

// addReason appends a reason that is not in the list yet, printable and truncated.
func addReason(to []string, why string) []string {
	why = printable(why)
	if len(to) < mostReasons && !slices.Contains(to, why) {
		to = append(to, why)
	}
	return to
}

// printable escapes unprintable characters, and cuts s to at most [reasonBytes] bytes.
func printable(s string) string {
	const dots = "..."
	var b strings.Builder
	fits := 0 // length that fits with dots appended
	for i := 0; i < len(s) && b.Len() <= reasonBytes; {
		r, n := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+n]
		if r == utf8.RuneError && n == 1 {
			piece = fmt.Sprintf(`\x%02x`, s[i])
		} else if !unicode.IsPrint(r) {
			piece = strconv.QuoteRune(r)
			piece = piece[1 : len(piece)-1]
		}
		b.WriteString(piece)
		if b.Len() <= reasonBytes-len(dots) {
			fits = b.Len()
		}
		i += n
	}
	if b.Len() > reasonBytes {
		return b.String()[:fits] + dots
	}
	return b.String()
}

// mergeReasons adds up the reasons of several shards or generators by kind;
// nil if there are none.
func mergeReasons(parts ...map[string][]string) map[string][]string {
	var out map[string][]string
	for _, part := range parts {
		for kind, list := range part {
			for _, why := range list {
				if out == nil {
					out = map[string][]string{}
				}
				out[kind] = addReason(out[kind], why)
			}
		}
	}
	return out
}

// reasonsFor returns the reasons for the kinds of failure that occurred; nil if there
// are none.
func reasonsFor(failed map[string]int64, all map[string][]string) map[string][]string {
	out := mergeReasons(all)
	maps.DeleteFunc(out, func(kind string, _ []string) bool { return failed[kind] == 0 })
	if len(out) == 0 {
		return nil
	}
	return out
}

// byKind returns the kept reasons by kind; nil if there are none.
func (r *reasons) byKind() map[string][]string {
	var out map[string][]string
	for k, list := range r.kept {
		if len(list) > 0 {
			if out == nil {
				out = map[string][]string{}
			}
			out[kinds[k]] = list
		}
	}
	return out
}

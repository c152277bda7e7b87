package profile

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds on what a pprof file may hold, beside [maxPprof]: an empty message
// takes two bytes of the file and more than a hundred of memory, and a number
// in a packed list one byte and sixteen. What is within them takes less than
// some 2 GB.
const (
	maxPprofMessages = 1 << 21 // samples, mappings, locations, functions and the like
	maxPprofStrings  = 1 << 22
	maxPprofParts    = 1 << 23 // labels of samples and lines of locations
	maxPprofNumbers  = 1 << 26 // bytes of packed lists: a number has at least one
)

// Fields of profile.proto that are neither messages nor single numbers.
const (
	pprofSample  = 2
	pprofStrings = 6
	pprofComment = 13

	pprofSampleLocations = 1
	pprofSampleValues    = 2
)

// boundPprof walks through a pprof file once, keeping nothing, and refuses one
// that would take far more memory than it has bytes.
func boundPprof(data []byte) error {
	var messages, texts, parts, numbers int
	err := eachField(data, func(field protowire.Number, value []byte) error {
		switch {
		case value == nil:
			numbers++
		case field == pprofStrings:
			texts++
		case field == pprofComment:
			numbers += len(value)
		default:
			messages++
			if err := eachField(value, func(inner protowire.Number, value []byte) error {
				switch {
				case value == nil:
					numbers++
				case field == pprofSample && (inner == pprofSampleLocations || inner == pprofSampleValues):
					numbers += len(value)
				default:
					parts++
				}
				return nil
			}); err != nil {
				return err
			}
		}
		switch {
		case messages > maxPprofMessages:
			return fmt.Errorf("more than %d samples, locations and functions", maxPprofMessages)
		case texts > maxPprofStrings:
			return fmt.Errorf("more than %d strings", maxPprofStrings)
		case parts > maxPprofParts:
			return fmt.Errorf("more than %d labels and lines", maxPprofParts)
		case numbers > maxPprofNumbers:
			return fmt.Errorf("more than %d numbers", maxPprofNumbers)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pprof: %w (%w)", err, ErrFormat)
	}
	return nil
}

// eachField calls f for each field of a message; the value is nil for those
// that are numbers.
func eachField(data []byte, f func(field protowire.Number, value []byte) error) error {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		var value []byte
		if kind == protowire.BytesType {
			if value, n = protowire.ConsumeBytes(data); value == nil {
				value = []byte{}
			}
		} else {
			n = protowire.ConsumeFieldValue(field, kind, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(field, value); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

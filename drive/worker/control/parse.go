package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// ParseConfig parses and validates a Config document. Unknown fields, wrong types,
// trailing text and values out of range are errors with exit code 2.
func ParseConfig(data []byte) (Config, error) {
	var config Config
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return Config{}, errs.Usage("worker configuration: at byte %d: %w", decoder.InputOffset(), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Config{}, errs.Usage("worker configuration: text after the document, at byte %d", decoder.InputOffset())
	}
	if config.Schema != 0 && config.Schema != Schema {
		return Config{}, errs.Usage("worker configuration: schema %d, this worker speaks %d", config.Schema, Schema)
	}
	return config, config.Validate()
}

// ParseServiceTime parses the short form of a service time:
//
//	none
//	fixed:1ms
//	exponential:1ms
//	lognormal:1ms,0.5     mean and sigma
//
// Recorded times come from a file: see ParseSamples.
func ParseServiceTime(text string) (ServiceTime, error) {
	name, rest, _ := strings.Cut(text, ":")
	s := ServiceTime{Distribution: name}
	switch name {
	case None:
		if rest != "" {
			return s, errs.Usage("service time %q: none takes no value", text)
		}
		return s, nil
	case Recorded:
		return s, errs.Usage("service time %q: recorded times come from a file", text)
	case Lognormal:
		mean, sigma, ok := strings.Cut(rest, ",")
		if !ok {
			return s, errs.Usage("service time %q: lognormal takes a mean and a sigma, as in lognormal:1ms,0.5", text)
		}
		value, err := strconv.ParseFloat(sigma, 64)
		if err != nil {
			return s, errs.Usage("service time %q: sigma %q is no number", text, sigma)
		}
		s.Sigma, rest = value, mean
	case Fixed, Exponential:
	default:
		return s, errs.WithHint(errs.Usage("service time %q: unknown distribution %q", text, name),
			"none, fixed:1ms, exponential:1ms, lognormal:1ms,0.5, recorded:FILE")
	}
	mean, err := time.ParseDuration(rest)
	if err != nil {
		return s, errs.Usage("service time %q: %q is no duration such as 500us or 1.5ms", text, rest)
	}
	s.MeanUS = float64(mean) / 1e3
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("service time %q: %w", text, err)
	}
	return s, nil
}

// ParseSamples reads recorded service times: a number of microseconds per line. It
// ignores blank lines and lines that begin with #.
func ParseSamples(r io.Reader) ([]float64, error) {
	var samples []float64
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		us, err := strconv.ParseFloat(line, 64)
		if err != nil || math.IsNaN(us) || us < 0 || us > MaxServiceUS {
			return nil, errs.Usage("line %d: %.40q is no number of microseconds in 0..%v", n, line, MaxServiceUS)
		}
		if len(samples) == MaxSamples {
			return nil, errs.Usage("line %d: more than %d samples", n, MaxSamples)
		}
		samples = append(samples, us)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, errs.Usage("recorded service times: a line of more than %d bytes is no number", bufio.MaxScanTokenSize)
	} else if err != nil {
		return nil, fmt.Errorf("recorded service times: %w", err)
	}
	if len(samples) == 0 {
		return nil, errs.Usage("recorded service times: there are none")
	}
	return samples, nil
}

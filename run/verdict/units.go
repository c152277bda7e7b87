package verdict

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// durations has the units of limits that are times.
var durations = map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}

// mostOf is the maximum value of a limit.
const mostOf = 1e18

// Text formats a value of the limit with its unit, as accepted by --limit: 25%, 10ms.
func (l Limit) Text(v float64) string {
	if l.Unit == "ratio" {
		// Multiplying a ratio by 100 adds spurious digits.
		return strconv.FormatFloat(math.Round(v*1e10)/1e8, 'g', -1, 64) + "%"
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + l.Unit
}

// parse parses a value: a plain number in the limit's unit, a ratio in percent, or a time
// with its own unit. Anything else, or a negative value, is a usage error.
func (l Limit) parse(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	unit, isTime := durations[l.Unit]
	switch percent, isPercent := strings.CutSuffix(text, "%"); {
	case err == nil:
	case isPercent && l.Unit == "ratio":
		v, err = strconv.ParseFloat(percent, 64)
		v /= 100
	case isTime:
		var d time.Duration
		d, err = time.ParseDuration(text)
		v = float64(d) / float64(unit)
	}
	if err != nil || !(v >= 0) || v > mostOf {
		return 0, errs.WithHint(errs.Usage("--limit %s: %q is not a %s of zero or more", l.Name, text, l.noun()), "its value is usually %s", l.Text(l.Default))
	}
	return v, nil
}

// noun returns what a value of the limit is called.
func (l Limit) noun() string {
	if _, isTime := durations[l.Unit]; isTime {
		return "time"
	}
	switch l.Unit {
	case "ratio":
		return "ratio"
	case "":
		return "number"
	}
	return "number of " + l.Unit
}

// Listed lists limits with their default values and what they bound, one per line.
func Listed(all []Limit) string {
	lines := make([]string, len(all))
	for i, l := range all {
		lines[i] = fmt.Sprintf("%s=%s: %s", l.Name, l.Text(l.Default), l.Doc)
	}
	return strings.Join(lines, "\n")
}

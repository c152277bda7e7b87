package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
)

// within is the permitted relative error of the planted filter's price.
const within = 0.1

// line is the result of a round: a line of the log.
type line struct {
	Schema    int       `json:"schema"`
	At        time.Time `json:"at"`
	Seconds   float64   `json:"s"` // the whole run, including deployment
	Meshtrial string    `json:"meshtrial"`
	Trials    int       `json:"trials"`
	Valid     int       `json:"valid"`
	Run       string    `json:"run,omitempty"` // its directory, if it was kept
	// PlantedUS is what the planted filter burns; prices are in microseconds of
	// CPU per request.
	PlantedUS int                      `json:"planted_us"`
	Prices    map[string]record.Priced `json:"prices"`
	// First and last possible place of the planted filter.
	RankLow  int `json:"rank_low"`
	RankHigh int `json:"rank_high"`
}

// Parts of the bench's bill.
const (
	partPlanted = "planted"
	partNothing = "nothing"
	partCall    = "call"
)

// lineOf extracts the reported figures from a round's findings, which have one
// bill.
func lineOf(f record.Findings, us int) line {
	l := line{Schema: 1, Meshtrial: f.Meshtrial, Trials: f.Validity.Trials, Valid: f.Validity.Valid, PlantedUS: us, Prices: map[string]record.Priced{}}
	for _, p := range f.Bills[0].Parts {
		l.Prices[p.Name] = p.Figures[dataplane.BillCPU]
		if p.Name == partPlanted {
			l.RankLow, l.RankHigh = p.RankLow, p.RankHigh
		}
	}
	return l
}

// off returns the relative error of the price compared with what the filter
// burns.
func (l line) off() float64 { return l.Prices[partPlanted].Estimate/float64(l.PlantedUS) - 1 }

// holdsZero reports whether the interval of the free filter includes zero.
func (l line) holdsZero() bool {
	n := l.Prices[partNothing]
	return n.Low <= 0 && n.High >= 0
}

// why says what a round misses, or "".
func (l line) why() string {
	planted, ok := l.Prices[partPlanted]
	nothing, also := l.Prices[partNothing]
	var out []string
	add := func(missed bool, format string, args ...any) {
		if missed {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if !ok || !also || planted.Verdict == record.VerdictInvalid || nothing.Verdict == record.VerdictInvalid {
		return "no price for lack of valid trials"
	}
	add(l.RankLow != 1 || l.RankHigh != 1, "planted may stand in places %d to %d", l.RankLow, l.RankHigh)
	add(math.Abs(l.off()) > within, "priced %.1f%% off", 100*l.off())
	add(!l.holdsZero() && nothing.Verdict == record.VerdictReal, "what costs nothing is priced %.2f (%.2f to %.2f)", nothing.Estimate, nothing.Low, nothing.High)
	return strings.Join(out, "; ")
}

// errMissed reports that a round missed.
var errMissed = errors.New("a planted filter was not priced or placed as it must be")

func judge(lines []line) error {
	if len(lines) == 0 {
		return errors.New("there is no round yet")
	}
	for _, l := range lines {
		if l.why() != "" {
			return errMissed
		}
	}
	return nil
}

func printText(out io.Writer, lines []line) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "round\tplanted µs\tpriced µs\tinterval\toff\tless the call\tplace\tnothing µs\tinterval\tvalid\ts\t\t")
	good, zero := 0, 0
	for i, l := range lines {
		p, n, call := l.Prices[partPlanted], l.Prices[partNothing], l.Prices[partCall]
		verdict := l.why()
		if verdict == "" {
			verdict, good = "reached", good+1
		}
		if l.holdsZero() {
			zero++
		}
		place := fmt.Sprint(l.RankLow)
		if l.RankHigh != l.RankLow {
			place += fmt.Sprintf("–%d", l.RankHigh)
		}
		fmt.Fprintf(w, "%d\t%d\t%.1f\t%.1f to %.1f\t%+.1f%%\t%.1f\t%s\t%.2f\t%.2f to %.2f\t%d of %d\t%.0f\t%s\t\n", i+1, l.PlantedUS, p.Estimate, p.Low, p.High,
			100*l.off(), p.Estimate-call.Estimate, place, n.Estimate, n.Low, n.High, l.Valid, l.Trials, l.Seconds, verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d of %d rounds: the planted filter first and priced within %.0f%%, and none for the one that costs nothing, whose interval holds zero in %d\n", good, len(lines), 100*within, zero)
	return err
}

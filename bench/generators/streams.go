package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// mostStream is the maximum CPU time and lag per message of a stream, relative to a request of
// HTTP/1.1.
const mostStream = 1.3

// spoken are the protocols that the worker serves: HTTP/1.1, and then those of streams.
func spoken() []string {
	return append([]string{protocol.HTTP1}, protocol.Names(func(p protocol.Protocol) bool { return p.Streams })...)
}

// streams compares messages on streams with requests, at two rates.
func (o *options) streams(ctx context.Context) (rows []table.Row, err error) {
	worker, err := child.Start(ctx, workerMode, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, worker.Close()) }()
	names := spoken()
	addresses := strings.Split(worker.Address, ",")
	if len(addresses) != len(names) {
		return nil, fmt.Errorf("the worker listens on %q", worker.Address)
	}
	for _, rps := range []float64{o.rps / 5, o.rps} {
		got, err := table.Rounds(fmt.Sprintf("streams at %g/s", rps), o.rounds, len(names), func(i int) (outcome, error) {
			return o.send(ctx, protocol.Of(names[i]).Plain.Scheme+"://"+addresses[i]+"/", contender{1, rate.Rate(rps), o.connections})
		})
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			of := fmt.Sprintf("%s at %g/s", name, rps)
			figure := func(what, unit string, of func(outcome) float64, least float64) {
				rows = append(rows, table.Of(what, unit, table.Each(got[i], of)...))
				if i > 0 {
					atLeast := func(x outcome) float64 { return max(of(x), least) }
					rows = append(rows, table.Of(what+" over "+names[0], "ratio", table.Ratios(got[i], got[0], atLeast)...).AtMost(mostStream))
				}
			}
			figure(of, "us CPU/message", outcome.cost, 0)
			// Lags of less are those of the clock and the kernel's timers.
			figure(of+": lag p50", "us", func(x outcome) float64 { return x.LagP50 }, leastLag)
			figure(of+": lag p99", "us", func(x outcome) float64 { return x.LagP99 }, leastLag)
		}
	}
	return rows, nil
}

// leastLag is the smallest lag that is compared, in microseconds.
const leastLag = 5

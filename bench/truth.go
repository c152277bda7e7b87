package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/bench/internal/child"
	"github.com/meshtrial/meshtrial/bench/internal/programs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/record"
)

// truthCase is a server with known service times under a known schedule.
type truthCase struct {
	name        string
	rate        float64
	seconds     float64
	connections int
	service     service
}

// service defines how long the server works on each request, in order of
// arrival.
type service struct {
	Seed   uint64  `json:"seed"`
	Law    string  `json:"law"` // fixed, exponential, lognormal
	MeanUS float64 `json:"mean_us"`
	Sigma  float64 `json:"sigma"` // of the logarithm
	// StallAt is the index of the request whose service takes StallMS longer,
	// or negative for none.
	StallAt int     `json:"stall_at"`
	StallMS float64 `json:"stall_ms"`
}

// times returns the successive service times in ns.
func (s service) times() func() int64 {
	rng := rand.New(rand.NewPCG(s.Seed, 0x736572766963))
	k := -1
	return func() int64 {
		us := s.MeanUS
		switch s.Law {
		case "exponential":
			us *= rng.ExpFloat64()
		case "lognormal":
			us *= math.Exp(s.Sigma*rng.NormFloat64() - s.Sigma*s.Sigma/2)
		}
		if k++; k == s.StallAt {
			us += s.StallMS * 1e3
		}
		return int64(us * 1e3)
	}
}

var truthCases = []truthCase{
	{"M/D/1", 400, 20, 64, service{Seed: 1, Law: "fixed", MeanUS: 1500, StallAt: -1}},
	{"M/M/1", 400, 20, 64, service{Seed: 2, Law: "exponential", MeanUS: 1500, StallAt: -1}},
	{"M/G/1 lognormal", 300, 20, 64, service{Seed: 3, Law: "lognormal", MeanUS: 1500, Sigma: 0.8, StallAt: -1}},
	{"one 1 s stall at 1000 rps", 1000, 20, 16, service{Seed: 4, Law: "fixed", MeanUS: 200, StallAt: 5000, StallMS: 1000}},
}

// truthSeed is the seed of the schedules.
const truthSeed = 11

// schedule returns the intended offsets in ns.
func (c truthCase) schedule() []int64 {
	schedule := arrival.Poisson(arrival.Shape{Kind: arrival.Constant, RateRPS: c.rate}, c.seconds, truthSeed)
	var out []int64
	for {
		r, ok := schedule.Next()
		if !ok {
			return out
		}
		out = append(out, r.Offset)
	}
}

// oracle returns the sorted latencies in ns of a server that serves one request
// at a time, in order of arrival (Lindley 1952): each begins when it arrives or
// when the previous one is done.
func (c truthCase) oracle() []float64 {
	next := c.service.times()
	var out []float64
	free := int64(0)
	for _, at := range c.schedule() {
		free = max(free, at) + next()
		out = append(out, float64(free-at))
	}
	slices.Sort(out)
	return out
}

// noted returns the sorted latencies in ns by the server's own record: from a
// request's intended time until the server answered it.
func (c truthCase) noted(start int64, answered []int64) []float64 {
	var out []float64
	for i, at := range c.schedule() {
		if i < len(answered) {
			out = append(out, float64(answered[i]-start-at))
		}
	}
	slices.Sort(out)
	return out
}

// at returns the value at percentile p of sorted values; the rank is rounded to
// the nearest, as in HdrHistogram.
func at(sorted []float64, p float64) float64 {
	rank := int(p/100*float64(len(sorted)) + 0.5)
	return sorted[min(len(sorted)-1, max(0, rank-1))]
}

// truthRounds is the number of runs of each case. The median is judged, since
// one pause of a virtual machine shifts every percentile of the busy period it
// falls into.
const truthRounds = 3

// path is a case without service time: it measures the way to the server and
// back, which queueing theory does not cover.
var path = truthCase{"the way there and back", 400, 5, 64, service{Seed: 5, Law: "fixed", StallAt: -1}}

// truth runs each case and compares every percentile with two oracles. One is
// queueing theory with the schedule and the service times, plus the median of
// the way there and back measured in the same round; it needs an idle machine,
// since it does not include delays of the server. The other is the server's own
// record, which includes them.
func (b *bench) truth(ctx context.Context) ([]table.Row, error) {
	type key struct {
		c    int
		q, o string
	}
	off, exact, got := map[key][]float64{}, map[key]float64{}, map[key]float64{}
	var order []key
	var ways []float64
	for round := range truthRounds {
		fmt.Fprintf(os.Stderr, "truth: round %d of %d\n", round+1, truthRounds)
		way, _, err := b.truthRun(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("truth: %s: %w", path.name, err)
		}
		ways = append(ways, way.Intended.At(0.5))
		for i, c := range truthCases {
			report, answered, err := b.truthRun(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("truth: %s: %w", c.name, err)
			}
			theory := c.oracle()
			if int(report.Completed) != len(theory) || len(answered) != len(theory) {
				return nil, fmt.Errorf("truth: %s: %d completed, %d answered, the schedule has %d", c.name, report.Completed, len(answered), len(theory))
			}
			noted := c.noted(report.StartUnixNS, answered)
			for _, q := range record.Percentiles() {
				p, own := 100*float64(q), report.Intended.At(q)
				for name, want := range map[string]float64{
					"theory": at(theory, p)/1e3 + way.Intended.At(0.5),
					"server": at(noted, p) / 1e3,
				} {
					k := key{i, q.Head(), name}
					off[k] = append(off[k], math.Abs(own-want))
					exact[k], got[k] = want, own
				}
				if round == 0 {
					order = append(order, key{i, q.Head(), "theory"}, key{i, q.Head(), "server"})
				}
			}
		}
	}
	out := []table.Row{table.Of("truth: "+path.name+", p50", "us", ways...)}
	for _, k := range order {
		name := fmt.Sprintf("truth, %s: %s, in the last round %s us, %s %s, off by", truthCases[k.c].name, k.q, table.Number(got[k]), k.o, table.Number(exact[k]))
		out = append(out, table.Of(name, "us", off[k]...).AtMost(math.Round(0.01*exact[k]+20)))
	}
	return out, nil
}

// truthRun starts the server as a separate process, and loads it. It returns
// our report and when the server answered each request.
func (b *bench) truthRun(ctx context.Context, c truthCase) (report load.Report, answered []int64, err error) {
	server, err := child.Start(ctx, serverMode, c.service, programs.Pin(b.serverCPU)...)
	if err != nil {
		return report, nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	t, err := b.ours(ctx, "http://"+server.Address+"/",
		"--rate", strconv.FormatFloat(c.rate, 'f', -1, 64), "--seed", strconv.Itoa(truthSeed),
		"--duration", fmt.Sprintf("%gs", c.seconds), "--connections", strconv.Itoa(c.connections), "--drain", "30s")
	if err != nil {
		return t.report, nil, err
	}
	if err := server.In.Close(); err != nil {
		return t.report, nil, err
	}
	if err := json.NewDecoder(server.Out).Decode(&answered); err != nil {
		return t.report, nil, fmt.Errorf("the server's record: %w", err)
	}
	return t.report, answered, nil
}

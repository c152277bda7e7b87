// Command bill checks the bill of a sidecar's parts against known costs: a planted
// filter that costs a given number of CPU microseconds per request, and one that
// costs nothing.
//
//	make build && go run ./bench/bill -n 10
//
// A round prices three parts by `meshtrial run`, in the running lab or in one that
// it starts (which requires root): the planted filter, one that does nothing, and
// a Lua script that does nothing, which shows the cost of calling the planted one
// in addition to what it burns. That call, some tens of microseconds, is part of
// the planted filter's price and is not subtracted: it must be small compared with
// what is burned, as must the uncertainty of a difference over six blocks. In
// every round the planted filter must be alone in the first place and be priced
// within 10%, and the one that does nothing must not have a price. Of intervals at
// 98%, one in sixty excludes zero by chance, so the number that do is reported,
// and one counts only if it also exceeds the difference between identical cells.
//
// The result of a round is a line in the log (-log), so the bench can be ended at
// any time and resumes from there; with -table it only prints the log. The exit
// code is 1 if a round misses.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/jsonl"
	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/record"
)

// billStudy is the study of a round. Requests arrive evenly and far below the
// machine's capacity, so waiting adds nothing to the proxy's CPU. One worker
// thread serves all connections, so it does not matter how the kernel spreads
// them. Many short trials are better than a few long ones, since trials differ by
// more than their requests do.
const billStudy = `name: bench-bill
question: Is a filter of known cost priced at what it costs, and one that costs nothing at nothing?
settings: {sidecars: server, mtls: permissive, rate: %d, connections: 8, arrival: uniform, payload: 1KiB, telemetry: "off", concurrency: 1}
bill:
  parts:
    planted: {filters: planted-%d}
    nothing: {filters: planted-noop}
    call: {filters: lua-noop}
  together: [planted]
warmup: {min: 500ms, max: 1500ms}
window: %s
interval: 250ms
blocks: {min: %d, max: %d, limit: 30m}
stop: none
measures: [latency, cpu, memory]
`

func main() {
	var log jsonl.Log[line]
	var rounds, us, rate, blocks int
	var window time.Duration
	table.Program{
		Name: "bill",
		Flags: func(f *flag.FlagSet) {
			log.Flags(f, "runs/bill.jsonl", 0)
			f.IntVar(&rounds, "n", 10, "how many rounds there are to be")
			f.IntVar(&us, "planted", 1000, "CPU microseconds per request that the planted filter burns")
			f.IntVar(&rate, "rate", 300, "requests per second")
			f.IntVar(&blocks, "blocks", 6, "blocks of a round")
			f.DurationVar(&window, "window", 2*time.Second, "window of a trial, in quarters of a second")
		},
		Run: func(ctx context.Context) error {
			if err := log.Open(); err != nil {
				return err
			}
			text := fmt.Sprintf(billStudy, rate, us, window, blocks, blocks)
			err := log.Fill(ctx, func(yield func(jsonl.Run[line]) bool) {
				takes := time.Duration(0) // assume the duration of the last one
				for i := len(log.Lines); i < rounds; i++ {
					if n := len(log.Lines); n > 0 {
						takes = time.Duration(log.Lines[n-1].Seconds * float64(time.Second))
					}
					if !yield(jsonl.Run[line]{Name: fmt.Sprintf("round %d of %d", i+1, rounds), Takes: takes,
						Do: func(ctx context.Context) (line, error) { return one(ctx, log.Folder(), text, us, i+1) }}) {
						return
					}
				}
			})
			err = errors.Join(err, printText(os.Stdout, log.Lines), table.WriteJSON(log.JSON, struct {
				Schema int    `json:"schema"`
				Rounds []line `json:"rounds"`
			}{1, log.Lines}))
			return errors.Join(err, judge(log.Lines))
		},
	}.Main()
}

// one runs a round. An error means that continuing is pointless.
func one(ctx context.Context, folder, text string, us, round int) (line, error) {
	at := time.Now().UTC()
	file, out := filepath.Join(folder, "bench-bill.yaml"), filepath.Join(folder, fmt.Sprintf("bill-%d-%s", round, at.Format("150405")))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return line{}, err
	}
	var printed bytes.Buffer
	code, err := labs.Run(ctx, &printed, "run", file, "--json", "--out", out)
	if ctx.Err() != nil {
		return line{}, ctx.Err()
	}
	var findings record.Findings
	if json.Unmarshal(printed.Bytes(), &findings) != nil || len(findings.Bills) != 1 {
		return line{}, fmt.Errorf("it came to no bill (exit %d, %s): %w", code, out, err)
	}
	l := lineOf(findings, us)
	l.At, l.Seconds = at, time.Since(at).Seconds()
	if l.why() != "" {
		l.Run = out
		return l, nil
	}
	return l, os.RemoveAll(out)
}
